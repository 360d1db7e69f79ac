"""`understudy backup`."""

import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from understudy.cli.ending import ending_tidily
from understudy.cli.output_file import is_stdout, new_file, refuse_unless_writable
from understudy.cli.stored import home, open_stored
from understudy.cli.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.home import state_dir
from understudy.errors import BadRequest
from understudy.store.opening import store_exists


def run(options: Namespace) -> int:
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
