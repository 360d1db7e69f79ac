"""Reads and opens files for changes: the only way to do so. `commit` writes.

Every part of a path is opened without following links, from the root of the file system down, and only regular files are touched.
So what was judged by its path is what gets changed, even if another program exchanges something meanwhile.
"""

import errno
import os
import stat
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import msgspec

from understudy.errors import PatchError
from understudy.places.masks import Identity
from understudy.places.placeholders import is_placeholder
from understudy.places.places import Places
from understudy.places.walking import check

T = TypeVar("T")

MAX_FILE_BYTES = 64 * 1024 * 1024
_MAX_OPEN_DIRECTORIES = 64  # a patch over many directories must not use up the descriptors of the whole server
# O_PATH (Linux) also works for directories that may be entered but not listed.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO that has replaced the file must not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotPlain(PatchError):
    """The path leads through a link, or to something that is neither a regular file nor a directory."""


class Masked(NotPlain):
    """Neither the model nor a patch may learn what is in it. No question is asked, because the question would show it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is masked: it can be neither read nor changed")


class FileState(msgspec.Struct, frozen=True):
    """What a path contained when it was looked at."""

    data: bytes | None  # None: too large, or not readable
    mode: int  # permission bits
    identity: tuple[int, int, int, int]  # device, inode, size, modification time

    def same_content(self, now: "FileState") -> bool:
        return self.identity == now.identity if self.data is None else self.data == now.data


def act_in(places: Places | None, work: Callable[[], T]) -> T:
    """Run `work`, which uses a door, with the rights that a command has in these places."""
    if places is None:
        return work()
    _ = places.judge  # made here, with our own rights
    return places.act(work)


class Door:
    """Keeps directories open while a patch is read or written; use as a context manager.

    With `places`, a pinned directory must still be the one that was pinned, and masked files are not opened under any name.
    """

    def __init__(self, places: Places | None = None) -> None:
        self._open: dict[str, int] = {}
        self._places = places
        self._pinned = {} if places is None else {place.path: place for place in places.pinned}
        self._hidden: set[Identity] = set() if places is None else places.masks.identities()

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def read(self, real: str) -> FileState | None:
        """What is at the path now; None if nothing is, or only a placeholder of the sandbox.

        Raises `NotPlain`, `IsADirectoryError`, or `OSError` if it cannot be examined.
        """
        try:
            directory, name = self.parent(real)
            try:
                return self._read_file(directory, name, real)
            except IsADirectoryError:
                if is_placeholder(name, directory):
                    return None
                raise
        except FileNotFoundError:
            return None

    def open_file(self, real: str) -> int:
        """A descriptor for reading the regular file at the path. The caller closes it."""
        directory, name = self.parent(real)
        return self._open_regular(directory, name, real)

    def parent(self, real: str, *, on_created: Callable[[str], None] | None = None) -> tuple[int, str]:
        """The open directory that contains the path, and the name in it. With `on_created`, missing directories are made."""
        path, _, name = real.rpartition("/")
        return self.directory(path, on_created=on_created), name

    def directory(self, path: str, *, on_created: Callable[[str], None] | None = None) -> int:
        """The open directory; valid until many others have been asked for."""
        held = self._open.pop(path, None)
        if held is None:
            held = self._walk(path, on_created)
            if len(self._open) >= _MAX_OPEN_DIRECTORIES:
                os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = held
        return held

    def _walk(self, path: str, on_created: Callable[[str], None] | None) -> int:
        current = os.open("/", _DIRECTORY)
        reached = ""
        for name in path.split("/")[1:]:
            reached = f"{reached}/{name}"
            try:
                following = _step(current, name, reached, on_created)
            finally:
                os.close(current)
            current = following
            try:
                self._judge_directory(current, reached)
            except BaseException:
                os.close(current)
                raise
        return current

    def _judge_directory(self, descriptor: int, path: str) -> None:
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino) in self._hidden:
            raise Masked(path)
        pinned = self._pinned.get(path)
        if pinned is not None:
            try:
                check(descriptor, path, pinned.device, pinned.inode)
            except OSError as error:
                raise NotPlain(error.strerror) from None

    def _read_file(self, directory: int, name: str, real: str) -> FileState:
        info = _plain_stat(os.stat(name, dir_fd=directory, follow_symlinks=False), real)
        self._judge_file(info, real)
        if info.st_size > MAX_FILE_BYTES:
            return FileState(None, stat.S_IMODE(info.st_mode), identity_of(info))
        try:
            descriptor = self._open_regular(directory, name, real)
        except PermissionError:
            return FileState(None, stat.S_IMODE(info.st_mode), identity_of(info))
        try:
            info = os.fstat(descriptor)
            data = _read_all(descriptor, info.st_size)
        finally:
            os.close(descriptor)
        return FileState(data, stat.S_IMODE(info.st_mode), identity_of(info))

    def _open_regular(self, directory: int, name: str, real: str) -> int:
        # Checked before it is opened, too, because opening some devices has effects.
        _plain_stat(os.stat(name, dir_fd=directory, follow_symlinks=False), real)
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotPlain(f"{real} is a symbolic link; a patch changes regular files only") from None
            raise
        try:
            self._judge_file(_plain_stat(os.fstat(descriptor), real), real)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _judge_file(self, info: os.stat_result, real: str) -> None:
        if self._places is not None and ((info.st_dev, info.st_ino) in self._hidden or self._places.masks.may_hold(info)):
            raise Masked(real)


def _step(directory: int, name: str, reached: str, on_created: Callable[[str], None] | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if on_created is None:
            raise
        try:
            os.mkdir(name, dir_fd=directory)
            on_created(reached)
        except FileExistsError:
            pass  # another program has just made it; the next line checks what it is
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        # With O_DIRECTORY, a link is "not a directory" on Linux and "too many levels" elsewhere; find out which it is.
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            _refuse_link(directory, name, reached)
        raise


def _refuse_link(directory: int, name: str, reached: str) -> None:
    if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        raise NotPlain(f"{reached} is a symbolic link; a patch does not go through links")


def _plain_stat(info: os.stat_result, real: str) -> os.stat_result:
    kind = stat.S_IFMT(info.st_mode)
    if kind == stat.S_IFREG:
        return info
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind == stat.S_IFLNK:
        raise NotPlain(f"{real} is a symbolic link; a patch changes regular files only")
    raise NotPlain(f"{real} is not a regular file; a patch changes regular files only")


def _read_all(descriptor: int, size: int) -> bytes | None:
    data = os.read(descriptor, size + 1)  # one byte more, so that a file that has not grown is read by two calls at most
    if len(data) == size:
        return data
    pieces = [data]
    total = len(data)
    while data and total <= MAX_FILE_BYTES:
        data = os.read(descriptor, 1 << 20)
        pieces.append(data)
        total += len(data)
    return None if total > MAX_FILE_BYTES else b"".join(pieces)


def identity_of(info: os.stat_result) -> tuple[int, int, int, int]:
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns
