"""A directory as a value: what tests compare before and after."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

Tree = dict[str, tuple[str, int, bytes]]


def tree_of(root: Path) -> Tree:
    """Everything under `root`: kind, permission bits, and content or link target."""
    found: Tree = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            info = path.lstat()
            mode = stat.S_IMODE(info.st_mode)
            key = str(path.relative_to(root))
            if stat.S_ISLNK(info.st_mode):
                found[key] = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(info.st_mode):
                found[key] = ("directory", mode, b"")
            elif stat.S_ISREG(info.st_mode):
                found[key] = ("file", mode, path.read_bytes())
            else:
                found[key] = ("other", mode, b"")
    return found


def contents(root: Path) -> dict[str, str]:
    """The files under `root`, as text with line endings kept."""
    return {path: data.decode() for path, (kind, _, data) in tree_of(root).items() if kind == "file"}


def write_files(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def patch_text(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))
