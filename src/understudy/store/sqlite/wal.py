"""The write-ahead log: extended before space is needed, copied in case somebody truncates it, and read as SQLite reads it after
a crash.
"""

import logging
import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class _Opened(NamedTuple):
    descriptor: int
    users: set["SharedMemory"]


_opened: dict[tuple[int, int], _Opened] = {}  # by device and inode


class SharedMemory:
    """Opened at once, if the file exists. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._place: tuple[int, int] | None = None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return
        self._place = (found.st_dev, found.st_ino)
        if self._place not in _opened:
            _opened[self._place] = _Opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC), set())
        _opened[self._place].users.add(self)

    def read(self, size: int) -> bytes:
        """The first bytes. Fewer if the file is shorter or did not exist."""
        opened = _opened.get(self._place) if self._place is not None else None
        return b"" if opened is None else os.pread(opened.descriptor, size, 0)

    def close(self) -> None:
        place, self._place = self._place, None
        opened = _opened.get(place) if place is not None else None
        if place is None or opened is None:
            return
        opened.users.discard(self)
        if not opened.users:
            del _opened[place]
            os.close(opened.descriptor)


HEADER, FRAME_HEADER = 32, 24
_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}  # with the byte order of the checksums


def committed_frames(path: Path) -> tuple[bytes, int]:
    """Its salt, which changes each time the log starts over, and how many frames are valid. Reads the whole file."""
    try:
        content = path.read_bytes()
    except OSError:
        return b"", 0
    return committed_in(content)


def committed_in(content: bytes) -> tuple[bytes, int]:
    if len(content) < HEADER:
        return b"", 0
    magic, _, page = struct.unpack_from(">III", content)
    order = _MAGICS.get(magic)
    salt = content[16:24]
    if order is None or not 512 <= page <= 65536:
        return b"", 0
    checksum = _add(order, content[:24], (0, 0))
    if checksum != struct.unpack_from(">II", content, 24):
        return b"", 0
    size = FRAME_HEADER + page
    committed = 0
    for number in range((len(content) - HEADER) // size):
        at = HEADER + number * size
        frame = content[at : at + size]
        if frame[8:16] != salt:
            break
        checksum = _add(order, frame[FRAME_HEADER:], _add(order, frame[:8], checksum))
        if checksum != struct.unpack_from(">II", frame, 16):
            break
        if frame[4:8] != b"\0\0\0\0":  # the frame ends a commit
            committed = number + 1
    return salt, committed


def _add(order: str, data: bytes, checksum: tuple[int, int]) -> tuple[int, int]:
    first, second = checksum
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for place in range(0, len(words), 2):
        first = (first + words[place] + second) & 0xFFFFFFFF
        second = (second + words[place + 1] + first) & 0xFFFFFFFF
    return first, second


PAGES = 1000  # as SQLite has it: `wal_autocheckpoint`
PAGE, FRAME_HEAD, FILE_HEADER = 4096, 24, 32
ENOUGH = FILE_HEADER + PAGES * (FRAME_HEAD + PAGE)
STEP = 512 * 1024
SPARED = 256 * 1024 * 1024  # bytes of the disk that we leave free


def extend_wal(connection: sqlite3.Connection, database: str) -> bool:
    """Extend it by one step. False if it is long enough, or the disk has no room."""
    connection.execute("BEGIN IMMEDIATE")  # nobody adds a frame meanwhile
    try:
        return _extend(Path(f"{database}-wal"))
    except OSError:
        return False  # without the extension, commits are only slower
    finally:
        connection.execute("ROLLBACK")


def _extend(log: Path) -> bool:
    fd = os.open(log, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        disk = os.fstatvfs(fd)
        if not FILE_HEADER < size < ENOUGH or disk.f_bavail * disk.f_frsize < SPARED:
            return False
        os.pwrite(fd, bytes(min(STEP, ENOUGH - size)), size)
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return True


logger = logging.getLogger(__name__)

AT_ONCE = 1024 * 1024  # bytes
MOST_BYTES = 64 * AT_ONCE  # of a log: it usually starts over at about four megabytes, unless somebody reads all the time
_HEAD = struct.Struct("=14xHI12x8s8x")  # of the shared memory, which has two copies of it: page size, frames and salt of the log
_WRITTEN, _WRITTEN_AT = struct.Struct("=I"), 128  # in the shared memory, too: how far writing frames into the database has begun
_MOST_LOOKS = 100  # attempts, while another process is writing the header


Extent = tuple[bytes, int, int, int]
"""What the shared memory says of the log: its salt, the size of a page, its frames, and how many of them the database may have."""


class WalCopy:
    """`read_shm` reads the first bytes of the shared memory. Used on the writer's thread."""

    def __init__(self, wal: Path, copy: Path, read_shm: Callable[[int], bytes]) -> None:
        self._wal = wal
        self._copy = copy
        self._read_shm = read_shm
        self._files: tuple[int, int] | None = None
        self._salt = b""
        self._frames = 0  # how many are copied

    def follow(self) -> bool:
        """Copy what was committed since the last call. False if the log lacks it because somebody truncated it."""
        try:
            extent = read_extent(self._read_shm)
            if extent is None:
                return True
            salt, page, frames, _ = extent
            if salt != self._salt:
                self._salt, self._frames = salt, 0
            if frames == self._frames:
                return True  # perhaps none: then all of it is in the database
            log, copy = self._files or self._open()
            end = HEADER + frames * (FRAME_HEADER + page)
            if end > MOST_BYTES:
                self._empty(copy)
                return True
            # begin at the last copied frame: a log that was truncated and has grown again has a hole there
            at = HEADER + (self._frames - 1) * (FRAME_HEADER + page) if self._frames > 1 else 0
            salt_at = at + 8 if at else 16
            while at < end:
                data = os.pread(log, min(AT_ONCE, end - at), at)
                if not data or (at <= salt_at and data[salt_at - at : salt_at - at + 8] != salt):
                    return not self._is_still(salt, frames)  # otherwise it started over, after all frames went into the database
                os.pwrite(copy, data, at)
                at += len(data)
            self._frames = frames
        except OSError as error:  # a full disk, say
            logger.info("the write-ahead log in %s has no copy: %s", self._wal.parent, error)
            if self._files is not None:
                self._empty(self._files[1])
        return True

    def _is_still(self, salt: bytes, frames: int) -> bool:
        now = read_extent(self._read_shm)
        return now is not None and (now[0], now[2]) == (salt, frames)

    def _empty(self, copy: int) -> None:
        """Empty it: an incomplete copy must not be taken for a complete one."""
        self._frames = 0
        with suppress(OSError):
            os.ftruncate(copy, 0)

    def _open(self) -> tuple[int, int]:
        log = os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC)
        try:
            copy = os.open(self._copy, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            os.close(log)
            raise
        self._files = log, copy
        return self._files

    def close(self) -> None:
        files, self._files = self._files, None
        for file in files or ():
            os.close(file)


def find_missing(database: Path, copy: Path, *, is_doubtful: bool) -> bytes | None:
    """What the write-ahead log should contain, if somebody truncated it. None if all is well, or nothing can be done.

    `is_doubtful`: a quick check is not enough.
    """
    wal = database.with_name(f"{database.name}-wal")
    memory = SharedMemory(database.with_name(f"{database.name}-shm"))
    extent = read_extent(memory.read)
    memory.close()
    if extent is not None and not is_doubtful and _has_last_frame(wal, extent):
        return None

    kept, here = copy.read_bytes(), wal.read_bytes() if wal.exists() else b""
    (salt, frames), (salt_here, frames_here) = committed_in(kept), committed_in(here)
    is_whole = frames <= frames_here if salt == salt_here else frames_here > 0
    if not frames or is_whole or not _is_current(salt, frames, extent, copy, database):
        return None
    (page,) = struct.unpack_from(">I", kept, 8)
    return kept[: HEADER + frames * (FRAME_HEADER + page)]


def _is_current(salt: bytes, frames: int, extent: Extent | None, copy: Path, database: Path) -> bool:
    """Whether the database has nothing newer than the copy, which restoring it would undo."""
    if extent is not None:
        return extent[0] == salt and extent[3] <= frames
    return copy.stat().st_mtime_ns >= database.stat().st_mtime_ns


def _has_last_frame(wal: Path, extent: Extent) -> bool:
    """A log that was truncated lacks its last frame."""
    salt, page, frames, _ = extent
    if not frames:
        return True
    size = FRAME_HEADER + page
    try:
        with wal.open("rb", buffering=0) as log:
            last = os.pread(log.fileno(), size, HEADER + (frames - 1) * size)
    except FileNotFoundError:
        return False
    return len(last) == size and last[8:16] == salt


def read_extent(read_shm: Callable[[int], bytes]) -> Extent | None:
    """None if there is no shared memory, or SQLite has not used it yet."""
    for _ in range(_MOST_LOOKS):
        found = read_shm(_WRITTEN_AT + _WRITTEN.size)
        if len(found) < _WRITTEN_AT + _WRITTEN.size:
            return None
        if found[: _HEAD.size] == found[_HEAD.size : 2 * _HEAD.size]:
            page, frames, salt = _HEAD.unpack_from(found)
            return (salt, 65536 if page == 1 else page, frames, *_WRITTEN.unpack_from(found, _WRITTEN_AT)) if page else None
    return None
