"""The store as a whole: prepare, check and move it, copy it, and verify that conversations are unchanged.

The commands `understudy store`, `understudy backup` and `understudy verify`.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from understudy.cli.conversations.output_file import is_stdout, new_file, refuse_unless_writable
from understudy.cli.ending import ending_tidily
from understudy.cli.stored import home, open_stored, write
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.home import expand, state_dir
from understudy.config.store import SCHEMES, SQLITE, read_store_choice
from understudy.errors import BadRequest, StoreError, UnknownConversation, how_to_add
from understudy.protocol.ids import ConversationId
from understudy.store.chain import Seals
from understudy.store.elsewhere import Elsewhere
from understudy.store.log import Audited, Holder, Store
from understudy.store.lookup import find_id
from understudy.store.moving.ends import End
from understudy.store.moving.file import FileEnd, is_there
from understudy.store.moving.move import move
from understudy.store.opening import store_exists
from understudy.store.place import prepare_folder
from understudy.store.postgres.schema import VERSION


def run_backup(options: Namespace) -> int:
    target = Path(options.file)
    if not is_stdout(options.file):
        refuse_unless_writable(target, may_replace=False)
    elif sys.stdout.isatty():
        raise BadRequest("a backup is not for a terminal: name a file, or send it into a pipe")
    if not store_exists(home()):
        raise BadRequest(f"there are no conversations in {state_dir(home())} yet")
    if is_stdout(options.file):
        return _to_stdout()
    with new_file(target, may_replace=False) as part:
        count, place = wait_for(lambda: _copy_to(part))
    print(f"{count} conversation{'' if count == 1 else 's'} saved to {one_line(str(target))}")
    print(
        f"To restore: stop every server, put it in the place of {place}, and remove {place}-wal and {place}-shm if they are there.",
        file=sys.stderr,
    )
    return 0


def _to_stdout() -> int:
    with ending_tidily(), tempfile.TemporaryDirectory(prefix="understudy-backup-") as folder:
        copy = Path(folder, "copy")
        wait_for(lambda: _copy_to(copy))
        with open(copy, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return 0


async def _copy_to(target: Path) -> tuple[int, str]:
    """How many conversations were copied, and from where."""
    async with open_stored() as log:
        await log.backup(target)
        return await log.count(), log.place


BROKEN = 1
NO_SUCH = 2


def run_verify(options: Namespace) -> int:
    if options.page is not None:
        from understudy.cli.conversations.verify_page import run as verify_page  # only here

        return verify_page(options)
    if options.head is not None and options.id is None:
        return _refuse("--head is the digest of a record of one conversation: name it")
    if not store_exists(home()):
        if options.id is not None:
            return _refuse(f"no conversation {options.id}; there are none yet")
        if not options.json:
            print("There are no conversations yet.")
        return 0
    try:
        return wait_for(lambda: _verify(options))
    except (UnknownConversation, BadRequest) as error:
        return _refuse(str(error))


def _refuse(text: str) -> int:
    print(f"understudy: {one_line(text)}", file=sys.stderr)
    return NO_SUCH


async def _verify(options: Namespace) -> int:
    async with open_stored() as log:
        ids = [await find_id(log, options.id)] if options.id is not None else await log.ids()
        found = broken = 0
        async for audited in _audits(log, ids, options):
            found += 1
            broken += audited.broken is not None
            print(json.dumps(as_json(audited)) if options.json else _describe(audited), flush=True)
        if options.id is not None:
            if not found:
                raise UnknownConversation(f"no conversation {options.id}: it was deleted just now")
            return BROKEN if broken else 0
        lost = await log.without_entry()
        if not options.json:
            print(_sum_up(found, broken))
        if lost:
            print(f"understudy: records of {_count(lost, 'conversation')} are there whose entry is gone", file=sys.stderr)
        return BROKEN if broken or lost else 0


async def _audits(log: Store, ids: Any, options: Namespace) -> AsyncIterator[Audited]:
    for conversation_id in ids:
        audited = await log.audit(conversation_id, options.head)
        if audited is not None and options.seal and audited.broken is not None and audited.broken.kind == "seal":
            audited = await _seal(log, conversation_id, options.head)
        if audited is not None:  # otherwise it was deleted meanwhile
            yield audited


async def _seal(log: Store, conversation_id: ConversationId, head: str | None) -> Audited | None:
    claim = await log.claim(conversation_id)
    if isinstance(claim, Elsewhere):
        raise BadRequest(f"{conversation_id} is on host {claim.host}: seal it there")
    if isinstance(claim, Holder):
        raise BadRequest(f"{conversation_id} is in use; seal it when its turn is over")
    try:
        audited = await log.audit(conversation_id)
        if audited is not None and audited.broken is not None and audited.broken.kind == "seal":
            digest = bytes.fromhex(audited.head)
            await write(lambda done: log.seal(conversation_id, audited.records, digest, done))
        return await log.audit(conversation_id, head)
    finally:
        claim.release()


def as_json(audited: Audited) -> dict[str, Any]:
    return {**msgspec.to_builtins(audited), "whole": audited.broken is None}


def _describe(audited: Audited) -> str:
    if audited.broken is not None:
        lines = [f"{audited.conversation_id}  BROKEN at record {audited.broken.seq}: {one_line(audited.broken.text)}"]
    else:
        lines = [f"{audited.conversation_id}  whole, {_count(audited.records, 'record')}, sealed, head {audited.head}"]
    if audited.head_at is not None:
        later = audited.records - audited.head_at
        since = f", and {_count(later, 'record')} came later" if later else ""
        lines.append(f"  the digest given is that of record {audited.head_at}{since}")
    if audited.older:
        about = "have digests from when the store got its present format; nothing shows what they were before"
        lines.append(f"  the first {_count(audited.older, 'record')} {about}")
    if audited.uncovered:
        lines.append(
            f"  the first {_count(audited.uncovered, 'record')} have no digests: they could not be read when they should get some"
        )
    return "\n".join(lines)


def _sum_up(found: int, broken: int) -> str:
    return f"{_count(found, 'conversation')}: {f'{broken} broken' if broken else 'all whole'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def need_driver() -> None:
    """Raises `StoreError` if it is not installed."""
    if find_spec("psycopg") is None:
        raise StoreError(f"conversation store: the driver of PostgreSQL is missing; {how_to_add('postgres')}")


def run_init(_: Namespace) -> int:
    url = read_store_choice(home(), os.environ).url
    if url is None:
        raise BadRequest("conversations are kept in a file, which needs no preparation; `understudy.store.url` names a database")
    need_driver()
    import psycopg

    from understudy.store.postgres.connecting import checked_url, connect, explain, place_of
    from understudy.store.postgres.tables import init_tables

    place = place_of(url)
    try:
        with connect(checked_url(url), "init", prepares=False) as connection:
            before = init_tables(connection, place)
    except (psycopg.Error, OSError) as error:
        raise explain(error, place) from error
    if before is None:
        print(f"{one_line(place)} has the tables for conversations now (version {VERSION})")
    elif before < VERSION:
        print(f"the tables of {one_line(place)} are of version {VERSION} now; they were of version {before}")
    else:
        print(f"the tables of {one_line(place)} are as they should be (version {before})")
    return 0


def run_move(options: Namespace) -> int:
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
    from understudy.store.postgres.processes import host_name

    return DatabaseEnd(_address(named), read_store_choice(home(), os.environ).host_name or host_name(folder))


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


_SAMPLE = 20_000  # records to read, unless all are asked for


def run_check(options: Namespace) -> int:
    if not store_exists(home()):
        print(f"there are no conversations in {one_line(str(state_dir(home())))} yet")
        return 0
    return wait_for(lambda: _check(full=options.full))


async def _check(*, full: bool) -> int:
    async with open_stored() as log:
        count = await log.count()
        asked = time.monotonic()
        damage = await log.check()
        print(
            f"{one_line(log.place)}: {count} conversation{'' if count == 1 else 's'}; it answers in "
            f"{(time.monotonic() - asked) * 1000:.0f} ms"
        )
        if damage != "ok":
            print(one_line(damage))
        verified = await log.verify(None if full else _SAMPLE)
        for problem in verified.problems:
            print(one_line(problem))
        rest = "" if verified.records >= verified.total else f" of {verified.total}; `--full` reads all"
        print(f"{verified.records} records read{rest}: {f'damage in {verified.damaged}' if verified.damaged else 'no damage'}")
        return BROKEN if verified.damaged or damage != "ok" else 0
