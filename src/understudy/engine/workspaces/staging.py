"""Reads the content of a workspace without reading anything outside it.

A running command may replace a file or folder by a link during the read. So each one is opened from its parent folder without
following links, with the rights that a command has there.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from understudy.places.doer import doer_in
from understudy.places.walking import FOLDER, step

MOST_FILE_MB = 100
FILE, PROGRAM, LINK = "100644", "100755", "120000"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Staged(NamedTuple):
    """A file to save. `copy`: where its content is; empty: the file is gone."""

    path: bytes
    mode: str = ""
    copy: str = ""


class LeftOut(NamedTuple):
    path: bytes
    why: str

    def describe(self) -> str:
        return f"{self.path.decode(errors='backslashreplace')}: {self.why}"


def stage(workspace: str, paths: Iterable[bytes], folder: str, most_mb: int) -> tuple[list[Staged], list[LeftOut]]:
    """Copy these files into a folder of ours. Runs in a thread."""
    staged, left_out = list[Staged](), list[LeftOut]()
    left = most_mb << 20
    root = os.open(workspace, FOLDER)
    try:
        for number, path in enumerate(paths):
            if any(part.lower() == b".git" or part in (b"", b".", b"..") for part in path.split(b"/")):
                left_out.append(LeftOut(path, "its name is git's own"))
                continue
            kept = _copy(workspace, root, path, os.path.join(folder, str(number)), left)
            if isinstance(kept, LeftOut):
                left_out.append(kept)
                continue
            staged.append(kept)
            left -= os.stat(kept.copy).st_size if kept.copy else 0
    finally:
        os.close(root)
    return staged, left_out


def _copy(workspace: str, root: int, path: bytes, copy: str, left: int) -> Staged | LeftOut:
    doer = doer_in(workspace)
    try:
        opened = _open(root, path) if doer is None else doer.act(lambda: _open(root, path))
    except (FileNotFoundError, NotADirectoryError):
        return Staged(path)
    except OSError as error:
        return LeftOut(path, str(error.strerror))
    if isinstance(opened, bytes):
        _write(copy, (opened,))
        return Staged(path, LINK, copy)
    try:
        found = os.fstat(opened)
        if stat.S_ISDIR(found.st_mode):
            return Staged(path)  # a folder has replaced it
        if not stat.S_ISREG(found.st_mode):
            return LeftOut(path, "it is neither a file nor a link")
        if found.st_size > min(MOST_FILE_MB << 20, left):
            return LeftOut(path, f"it is too large to be kept ({found.st_size >> 20} MB)")
        _write(copy, _content(opened, found.st_size))
        return Staged(path, PROGRAM if found.st_mode & 0o100 else FILE, copy)
    except OSError as error:
        return LeftOut(path, str(error.strerror))
    finally:
        os.close(opened)


def _open(root: int, path: bytes) -> int | bytes:
    """A descriptor, or the target of a link."""
    *folders, name = path.split(b"/")
    current = os.dup(root)
    try:
        for folder in folders:
            following = _below(current, folder)
            os.close(current)
            current = following
        with suppress(OSError):
            return os.readlink(name, dir_fd=current)
        return os.open(name, _READ, dir_fd=current)
    finally:
        os.close(current)


def _below(current: int, folder: bytes) -> int:
    try:
        return step(current, folder, FOLDER)
    except OSError as error:
        if os.stat(folder, dir_fd=current, follow_symlinks=False).st_mode & 0o170000 == 0o120000:
            raise FileNotFoundError(error.errno, "a link has taken the place of its folder") from None
        raise


def _content(opened: int, size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := os.read(opened, min(size, 1 << 20))):
        size -= len(chunk)
        yield chunk


def _write(path: str, chunks: Iterable[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(chunks)
