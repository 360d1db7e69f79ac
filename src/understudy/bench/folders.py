"""The folders of a run: what the agent starts with, and what it left with the hidden tests laid over it.

What an agent leaves is not to be trusted: a link, or a pipe, may stand where a hidden test has to go.
"""

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from understudy.bench.tasks import TaskFile
from understudy.errors import BadRequest


def lay_out(folder: Path, files: Mapping[str, TaskFile]) -> None:
    """Put files into a folder. Whatever stands in their way is replaced; nothing is written through a link."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        parent = folder
        for part in name.split("/")[:-1]:
            parent = parent / part
            _make_folder(parent)
        target = parent / name.rpartition("/")[2]
        _remove(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if file.executable else 0o644)
        with open(descriptor, "wb") as written:
            written.write(file.content)


def copy_work(work: Path, copy: Path) -> None:
    """What the agent left, without pipes, sockets and devices; links stay links. Raises `BadRequest` where it cannot be copied."""
    try:
        shutil.copytree(work, copy, symlinks=True, ignore=_special)
    except (shutil.Error, OSError) as error:
        raise BadRequest(f"what the agent left cannot be copied: {str(error)[:300]}") from None


def _special(folder: str, names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        mode = os.lstat(os.path.join(folder, name)).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            found.add(name)
    return found


def _make_folder(path: Path) -> None:
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        path.unlink()
    path.mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
