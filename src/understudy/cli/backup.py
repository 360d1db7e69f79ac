"""`understudy backup`."""

import sys
from argparse import Namespace
from pathlib import Path

from understudy.cli.output_file import new_file, refuse_unless_writable
from understudy.cli.stored import open_store, store_exists, store_folder
from understudy.cli.terminal import one_line
from understudy.errors import BadRequest


def run(options: Namespace) -> int:
    target = Path(options.file)
    refuse_unless_writable(target, may_replace=False)
    if not store_exists():
        raise BadRequest(f"there are no conversations in {store_folder()} yet")
    with open_store() as log, new_file(target, may_replace=False) as part:
        log.backup(part)
        count = log.count()
    print(f"{count} conversation{'' if count == 1 else 's'} saved to {one_line(str(target))}")
    print(f"To restore, put it in the place of {log.path} while no server runs.", file=sys.stderr)
    return 0
