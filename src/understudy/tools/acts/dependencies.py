"""What a command depends on besides its words: the folder it runs in, the programs and scripts that it names, their interpreters.

An approval is for these as they are when the question is put. What a program reads by itself (a Makefile, a package's
scripts) is not looked at.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from typing import NamedTuple

from understudy.policy.words import Words
from understudy.tools.acts.run_targets import find_run_targets, scripts_by_name
from understudy.tools.acts.wildcards import TooWide

Identity = tuple[int, int]  # device and inode

_MAX_FILES = 1_000
_MAX_PROGRAMS = 100
_MAX_INTERPRETERS = 4  # of a script whose interpreter is a script; the kernel goes no further
_MAX_BYTES = 1024 * 1024  # a larger file is told by its times
_HEAD = 256


def fingerprint(argv: Words, cwd: str, search_path: str = "") -> str:
    """Differs when the folder is another one, when what one of those files holds has changed, or a program is found elsewhere.

    Raises `TooWide`.
    """
    folder = _status(cwd)
    told = [f"{folder.st_dev}:{folder.st_ino}" if folder else ""]
    told += [f"{path}:{mark}" for path, mark in _Dependencies(argv, cwd, search_path).marks.items()]
    return "\n".join(told)


def folders_to_lock(argv: Words, cwd: str, search_path: str = "") -> frozenset[Identity]:
    """Every folder in which something that the command depends on could be replaced, by whoever may write there."""
    found: set[Identity] = set()
    depends = _Dependencies(argv, cwd, search_path)
    paths = [cwd, *(path for path in depends.marks if path.startswith("/"))]
    paths += [os.path.join(cwd, word) for word in scripts_by_name(argv)]  # one that is not there yet could appear
    if depends.looked_up:
        paths += [os.path.join(cwd, folder, "program") for folder in search_path.split(":")]
    for path in paths[:_MAX_FILES]:
        for way in (path, os.path.realpath(path)):
            found.update(_folders_above(way))
    return frozenset(found)


def depended_on(argv: Words, cwd: str, search_path: str = "") -> dict[str, str]:
    """Those files, by path, each with something that differs when it changes. Raises `TooWide`."""
    marks = _Dependencies(argv, cwd, search_path).marks
    return {path: mark for path, mark in marks.items() if path.startswith("/")}


class _Dependencies:
    """`marks`: what is there, by path, each with something that differs when it changes; and where programs are found, by name."""

    def __init__(self, argv: Words, cwd: str, search_path: str) -> None:
        self._cwd = cwd
        self._search_path = search_path
        self.marks: dict[str, str] = {}
        found = find_run_targets(argv, cwd)
        self.looked_up = bool(found.programs)
        for path in found.files:
            self._add(path)
        for name in found.programs[:_MAX_PROGRAMS]:
            self._look_up(name, 0)

    def _add(self, path: str, depth: int = 0) -> None:
        if path in self.marks or (content := _content(path)) is None:
            return
        if len(self.marks) >= _MAX_FILES:
            raise TooWide
        self.marks[path] = content.mark
        self._add_interpreter(content.head, depth)

    def _look_up(self, name: str, depth: int) -> None:
        path = _find(name, self._search_path, self._cwd)
        self.marks[name] = path or ""
        if path is not None and path not in self.marks:
            self.marks[path] = times = _times(path)
            self._add_interpreter(_head(path, times), depth)

    def _add_interpreter(self, head: bytes, depth: int) -> None:
        """A script depends on the program that its first line names, and that one perhaps on another."""
        if not head.startswith(b"#!") or depth >= _MAX_INTERPRETERS:
            return
        program, *rest = os.fsdecode(head[2:].split(b"\n")[0]).split() or [""]
        if program:
            self._add(os.path.join(self._cwd, program), depth + 1)
        if os.path.basename(program) == "env":
            for word in rest:
                if word.startswith("-") or "=" in word:
                    continue
                if "/" in word:
                    self._add(os.path.join(self._cwd, word), depth + 1)
                else:
                    self._look_up(word, depth + 1)
                break


def identity(path: str) -> Identity | None:
    status = _status(path)
    return (status.st_dev, status.st_ino) if status else None


def identities(folders: Iterable[str]) -> frozenset[Identity]:
    return frozenset(found for folder in folders if (found := identity(folder)) is not None)


def _folders_above(path: str) -> Iterator[Identity]:
    while (parent := os.path.dirname(path)) != path:
        path = parent
        if (found := identity(path)) is not None:
            yield found


def _find(name: str, search_path: str, cwd: str) -> str | None:
    for folder in search_path.split(":"):
        path = os.path.join(cwd, folder, name)
        with suppress(OSError, ValueError):
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    return None


def _times(path: str) -> str:
    status = _status(path)
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}" if status else ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


class _Content(NamedTuple):
    mark: str
    head: bytes


def _content(path: str) -> _Content | None:
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > _MAX_BYTES:
        return _Content(times := _times(path), _head(path, times))
    import hashlib  # some milliseconds, which a server's start need not wait for

    try:
        with _opened(path) as file:
            size = os.fstat(
                file.fileno()
            ).st_size  # of the one that is read; files of the kernel have none, and might be waited for
            data = file.read(min(size, _MAX_BYTES)) or b""
    except OSError:
        return None
    return _Content(f"{size}:{hashlib.sha256(data).hexdigest()}", data[:_HEAD])


@lru_cache(maxsize=256)
def _head(path: str, _: str) -> bytes:
    """Of a file with these times."""
    try:
        with _opened(path) as file:
            return file.read(_HEAD) or b"" if os.fstat(file.fileno()).st_size else b""
    except OSError:
        return b""


def _opened(path: str) -> FileIO:
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)  # it may be a pipe by now
