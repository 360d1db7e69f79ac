"""Second names for the files of a store that is in use, so that taking one of them away loses nothing.

While a process has the store open, its database, write-ahead log and shared memory are also linked in a folder beside them. Whoever
opens the store next finds there what was deleted, renamed or replaced, and puts it back: as the same files, so that servers which
have not noticed go on with everybody else. The last that closes the store takes the second names away.

Whether someone has the store open is told by a lock on its write-ahead log, which SQLite locks no byte of.
"""

import fcntl
import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from understudy.store.chain import KEY_FILE
from understudy.store.locks import HAS_OWNERS, is_locked, lock_shared
from understudy.store.sqlite.wal import committed_frames, find_missing

logger = logging.getLogger(__name__)

FOLDER = "kept"
MARK = "in use"  # in that folder: its files are those that a server had open when it saw that the others were gone
ALONE_SECONDS = 5.0
SHM_UNIT = 32768
_MAGIC = b"SQLite format 3\0"  # with which a database begins
COPY = "conversations.db-wal.copy"  # in that folder: see `WalCopy`
CUT = "cut"  # in that folder: a server has seen that something is missing from the write-ahead log, behind which more follows
SHM_IN_USE = 128  # the byte of the shared memory that SQLite locks for as long as it has it


class SecondNames:
    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._kept = path.parent / FOLDER
        self._database, self._wal, self._shm = self._names = (path.name, f"{path.name}-wal", f"{path.name}-shm")
        self._lock: int | None = None

    @contextmanager
    def alone(self) -> Generator[None]:
        """Nobody else opens or closes the store meanwhile. Somebody who takes too long over it is not waited for."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            give_up = time.monotonic() + ALONE_SECONDS
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        logger.warning("somebody has been opening or closing the store in %s for a long time", self._folder)
                        break
                    time.sleep(0.002)
                except OSError:
                    break  # a file system without such locks
                else:
                    break
            yield
        finally:
            os.close(folder)

    def restore(self) -> None:
        """Before the store is opened. Raises OSError where that cannot be done: whoever opened it then would make things worse."""
        self._make_usable()
        if not (self._kept / self._database).exists():
            self._drop()
            return
        in_use = self._is_in_use(self._kept / self._wal) or self._is_in_use(self._folder / self._wal)
        if not (self._folder / self._database).exists():
            self._put_back(self._database)
        elif not self._is_same(self._database):
            if not in_use and not self._is_marked() and self._may_be_meant():
                self._leave_to_the_replacement()
                return
            self._set_aside(self._database)
            self._put_back(self._database)
        self._restore_wal()
        self._restore_shm()
        self._mend_cut_wal()
        if (self._kept / KEY_FILE).exists() and not (self._folder / KEY_FILE).exists():
            self._put_back(KEY_FILE)
        for mark in (MARK, CUT):
            with suppress(FileNotFoundError):
                (self._kept / mark).unlink()

    def keep(self) -> None:
        """Once the store is open: link what it consists of."""
        try:
            if self._lock is None:
                self._lock = os.open(self._folder / self._wal, os.O_RDONLY | os.O_CLOEXEC)
                lock_shared(self._lock, 0)
            self._kept.mkdir(mode=0o700, exist_ok=True)
            for name in self._names:
                if not self._is_same(name):
                    with suppress(FileNotFoundError):
                        (self._kept / name).unlink()
                    os.link(self._folder / name, self._kept / name)
            if not (self._kept / KEY_FILE).exists():
                os.link(self._folder / KEY_FILE, self._kept / KEY_FILE)
        except OSError as error:  # a file system without links, or a full one
            logger.info("the store in %s has no second names: %s", self._folder, error)

    @property
    def wal(self) -> Path:
        return self._folder / self._wal

    @property
    def copy(self) -> Path:
        """Of the write-ahead log."""
        return self._kept / COPY

    def note_gone(self) -> None:
        """The files that we have open are not those that stand there now: see `MARK`."""
        with suppress(OSError):
            if self._kept.is_dir() and not all(map(self._is_same, self._names)):
                (self._kept / MARK).touch(mode=0o600)

    def note_cut(self) -> None:
        with suppress(OSError):
            (self._kept / CUT).touch(mode=0o600)

    def let_go(self, *, is_gone: bool) -> None:
        """Once the store is closed. `is_gone`: its files were not those that stand there now."""
        with suppress(OSError):
            if not is_gone and not (self._folder / self._wal).exists():  # closed by the last one who had it open
                self._drop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- the parts

    def _restore_wal(self) -> None:
        here, kept = self._folder / self._wal, self._kept / self._wal
        if not kept.exists() or self._is_same(self._wal):
            return
        if not here.exists():
            if self._is_in_use(kept) or self._is_current(kept):
                self._put_back(self._wal)
            else:
                kept.unlink()  # all of it is in the database, and perhaps more that was written since
        elif self._is_in_use(kept) or (not self._is_in_use(here) and self._is_current(kept) and _goes_further(kept, here)):
            self._set_aside(self._wal)
            self._put_back(self._wal)
        else:
            kept.unlink()

    def _mend_cut_wal(self) -> None:
        """A log that was cut short in place has lost what stands nowhere else but in its copy."""
        if not self.copy.exists():
            return
        content = find_missing(self._folder / self._database, self.copy, is_doubtful=(self._kept / CUT).exists())
        if content is None:
            return
        new = self._kept / f"{self._wal}.new"
        new.write_bytes(content)
        new.chmod(0o600)
        for each in (self._folder, self._kept):  # made anew from the log; those who have the former ones open write no more
            (each / self._shm).unlink(missing_ok=True)
        new.replace(self.wal)
        logger.warning("%s was cut short while the store was in use; what was in it has been put back", self.wal)

    def _restore_shm(self) -> None:
        here, kept = self._folder / self._shm, self._kept / self._shm
        if not kept.exists():
            return
        if _is_cut(kept):  # SQLite would read what is left of it; it makes another one of the write-ahead log
            for each in (here, kept):
                each.unlink(missing_ok=True)
            return
        if self._is_same(self._shm):
            return
        if _is_locked(kept, SHM_IN_USE):
            with suppress(FileNotFoundError):
                here.unlink()  # nothing is in it that is not in the write-ahead log
            self._put_back(self._shm)
        else:
            kept.unlink()

    def _leave_to_the_replacement(self) -> None:
        """The database was replaced, by a backup say, while nobody had it open: what belongs to the former one goes with it."""
        former = self._folder / f"former-{_now()}"
        for name in (self._wal, self._shm):
            if self._is_same(name):
                (self._folder / name).unlink()
        self._kept.rename(former)
        logger.warning("%s has been replaced; the former one is now %s", self._folder / self._database, former / self._database)

    def _put_back(self, name: str) -> None:
        os.link(self._kept / name, self._folder / name)
        if name != self._shm:
            logger.warning("%s was deleted or replaced while the store was in use; it has been put back", self._folder / name)

    def _set_aside(self, name: str) -> None:
        aside = self._folder / f"{name}.replaced-{_now()}"
        (self._folder / name).rename(aside)
        logger.warning("what stood in the place of %s is now %s", self._folder / name, aside)

    def _drop(self) -> None:
        if not self._kept.is_dir():
            return
        for name in (*self._names, KEY_FILE, MARK, COPY, CUT):
            with suppress(FileNotFoundError):
                (self._kept / name).unlink()
        with suppress(OSError):
            self._kept.rmdir()

    def _make_usable(self) -> None:
        """The files are ours to read and write, whatever somebody has made of their modes."""
        for name in (*self._names, KEY_FILE):
            with suppress(OSError):
                mode = (self._folder / name).stat().st_mode
                if mode & 0o600 != 0o600:
                    (self._folder / name).chmod(mode & 0o7777 | 0o600)

    # -- what is so

    def _is_same(self, name: str) -> bool:
        try:
            return os.path.samefile(self._folder / name, self._kept / name)
        except OSError:
            return False

    def _is_in_use(self, wal: Path) -> bool:
        return _is_locked(wal, 0)

    def _is_marked(self) -> bool:
        return (self._kept / MARK).exists()

    def _is_current(self, kept_wal: Path) -> bool:
        """Whether the database may lack some of it: whoever closes the store writes all of it there, and so after it."""
        written = (self._folder / self._database).stat().st_mtime_ns
        marked = self._kept / MARK
        return kept_wal.stat().st_mtime_ns >= written or (marked.exists() and marked.stat().st_mtime_ns >= written)

    def _may_be_meant(self) -> bool:
        """Whether what stands in the place of the database is another one, and not the same again, or none."""
        import filecmp  # only here

        here, kept = self._folder / self._database, self._kept / self._database
        with here.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        return not filecmp.cmp(here, kept, shallow=False)


def _goes_further(kept: Path, here: Path) -> bool:
    """Of two write-ahead logs that nobody has open: whether the first has all of the second, and perhaps more."""
    (salt, frames), (salt_here, frames_here) = committed_frames(kept), committed_frames(here)
    return frames > 0 and (frames_here == 0 or (salt == salt_here and frames >= frames_here))


def _is_cut(shm: Path) -> bool:
    """Whether somebody else made it shorter: SQLite makes it longer by whole units, and no shorter while anyone has it."""
    size = shm.stat().st_size
    return not size or size % SHM_UNIT != 0


def _is_locked(path: Path, byte: int) -> bool:
    if not HAS_OWNERS:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_locked(descriptor, byte)
    finally:
        if byte == 0:
            os.close(descriptor)  # closing that of shared memory would free locks that SQLite may have in this process


def _now() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(2).hex()}"
