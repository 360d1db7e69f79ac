"""What the files of a folder hold while servers and their helpers still remove some of them."""

import os
from contextlib import suppress
from pathlib import Path


def contents(folder: Path) -> dict[Path, bytes]:
    """Every regular file below `folder` that is still there when it is read."""
    found: dict[Path, bytes] = {}
    for place, _, names in os.walk(folder):  # not `rglob`, which fails where a folder goes meanwhile
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
    return found
