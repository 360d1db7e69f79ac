"""`understudy backup`."""

import shutil
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

from understudy.cli.ending import ending_tidily
from understudy.cli.output_file import is_stdout, new_file, refuse_unless_writable
from understudy.cli.stored import open_store, store_exists, store_folder
from understudy.cli.terminal import one_line
from understudy.errors import BadRequest


def run(options: Namespace) -> int:
    target = Path(options.file)
    if not is_stdout(options.file):
        refuse_unless_writable(target, may_replace=False)
    elif sys.stdout.isatty():
        raise BadRequest("a backup is not for a terminal: name a file, or send it into a pipe")
    if not store_exists():
        raise BadRequest(f"there are no conversations in {store_folder()} yet")
    if is_stdout(options.file):
        return _to_stdout()
    with open_store() as log, new_file(target, may_replace=False) as part:
        log.backup(part)
        count = log.count()
    print(f"{count} conversation{'' if count == 1 else 's'} saved to {one_line(str(target))}")
    print(f"To restore, put it in the place of {log.path} while no server runs.", file=sys.stderr)
    return 0


def _to_stdout() -> int:
    with ending_tidily(), tempfile.TemporaryDirectory(prefix="understudy-backup-") as folder:
        copy = Path(folder, "conversations.db")
        with open_store() as log:
            log.backup(copy)
        with open(copy, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    return 0
