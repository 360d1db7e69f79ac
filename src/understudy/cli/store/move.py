"""`understudy store move FROM TO`."""

import os
import sys
from argparse import Namespace
from contextlib import closing
from pathlib import Path

from understudy.cli.store.driver import need_driver
from understudy.cli.stored import home
from understudy.cli.tell.terminal import one_line
from understudy.config.home import expand, state_dir
from understudy.config.store import SCHEMES, SQLITE, read_store_choice
from understudy.errors import BadRequest
from understudy.store.chain import Seals
from understudy.store.moving.ends import End
from understudy.store.moving.file import FileEnd, is_there
from understudy.store.moving.move import move
from understudy.store.place import prepare_folder


def run(options: Namespace) -> int:
    folder = state_dir(home())
    if (options.source == SQLITE) == (options.target == SQLITE):
        raise BadRequest(f"one of the two is `{SQLITE}`, and the other the address of a database, or @FILE with it")
    if options.source == SQLITE and not is_there(folder):
        raise BadRequest(f"there are no conversations in {folder} yet: nothing to move")
    prepare_folder(folder)
    with closing(_open(options.source, folder)) as source, closing(_open(options.target, folder)) as target:
        report = move(
            source, target, Seals(folder, read_store_choice(home(), os.environ).audit_key), _tell if sys.stderr.isatty() else None
        )
        print(
            f"{report.conversations} conversations with {report.records} records are in {one_line(target.place)} now, and their "
            f"digests and seals are what they were; {one_line(source.place)} refuses writes from now on"
        )
    for broken in report.broken:
        print(f"it was damaged before, and is as it was: {one_line(broken)}", file=sys.stderr)
    return 0


def _open(named: str, folder: Path) -> End:
    if named == SQLITE:
        return FileEnd(folder)
    need_driver()
    from understudy.store.moving.database import DatabaseEnd

    return DatabaseEnd(_address(named))


def _address(named: str) -> str:
    if named.startswith("@"):
        path = expand(named[1:], base=Path.cwd(), env=os.environ)
        try:
            named = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadRequest(
                f"{path} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is not UTF-8'}"
            ) from None
    elif _has_password(named):
        raise BadRequest(
            "an address with a password does not belong into a command, which others can see: write it into a file, "
            "and name that as @FILE"
        )
    if not named.startswith(SCHEMES):
        raise BadRequest(f"that is no address of a database: it begins with {SCHEMES[0]}")
    return named


def _has_password(url: str) -> bool:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        return "password" in conninfo_to_dict(url)
    except ProgrammingError:
        return False


def _tell(done: int, of: int) -> None:
    print(f"\r{done} of {of}", end="" if done < of else "\n", file=sys.stderr, flush=True)
