"""Second names (hard links) for the files of a store in use, so that deleting or renaming one of them loses nothing.

While a process has the store open, its database, write-ahead log and shared memory are also linked in a folder beside them. Whoever
opens the store next finds there what was deleted, renamed or replaced, and puts the same files back, so that it and the servers
which have not noticed share them. The last process that closes the store removes the second names.

A lock on a byte of the write-ahead log that SQLite never locks shows whether anyone has the store open.
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
MARK = "in use"  # in that folder: its files are those that a server had open when it noticed that the originals were gone
ALONE_SECONDS = 5.0
SHM_UNIT = 32768
_MAGIC = b"SQLite format 3\0"  # the first bytes of a database
COPY = "conversations.db-wal.copy"  # in that folder: see `WalCopy`
CUT = "cut"  # in that folder: a server has noticed that the write-ahead log lacks frames before its end
SHM_IN_USE = 128  # the byte of the shared memory that SQLite keeps locked while it uses the file


class SecondNames:
    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._kept = path.parent / FOLDER
        self._database, self._wal, self._shm = self._names = (path.name, f"{path.name}-wal", f"{path.name}-shm")
        self._lock: int | None = None

    @contextmanager
    def alone(self) -> Generator[None]:
        """Keep others from opening or closing the store meanwhile. If another process takes too long over that, go on without
        waiting."""
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
                    break  # the file system has no such locks
                else:
                    break
            yield
        finally:
            os.close(folder)

    def restore(self) -> None:
        """Call it before the store is opened. Raises OSError if restoring fails: opening the store then would do more harm."""
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
        """Call it once the store is open: links its files."""
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
        except OSError as error:  # the file system is full, or has no links
            logger.info("the store in %s has no second names: %s", self._folder, error)

    @property
    def wal(self) -> Path:
        return self._folder / self._wal

    @property
    def copy(self) -> Path:
        """The copy of the write-ahead log."""
        return self._kept / COPY

    def note_gone(self) -> None:
        """Note that the files which we have open are no longer those under their names: see `MARK`."""
        with suppress(OSError):
            if self._kept.is_dir() and not all(map(self._is_same, self._names)):
                (self._kept / MARK).touch(mode=0o600)

    def note_cut(self) -> None:
        with suppress(OSError):
            (self._kept / CUT).touch(mode=0o600)

    def let_go(self, *, is_gone: bool) -> None:
        """Call it once the store is closed. `is_gone`: our files were no longer those under their names."""
        with suppress(OSError):
            if not is_gone and not (self._folder / self._wal).exists():  # the last process to close it
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
                kept.unlink()  # all of it is in the database, and perhaps later writes
        elif self._is_in_use(kept) or (not self._is_in_use(here) and self._is_current(kept) and _goes_further(kept, here)):
            self._set_aside(self._wal)
            self._put_back(self._wal)
        else:
            kept.unlink()

    def _mend_cut_wal(self) -> None:
        """A log that was truncated in place has lost what only its copy has now."""
        if not self.copy.exists():
            return
        content = find_missing(self._folder / self._database, self.copy, is_doubtful=(self._kept / CUT).exists())
        if content is None:
            return
        new = self._kept / f"{self._wal}.new"
        new.write_bytes(content)
        new.chmod(0o600)
        for each in (self._folder, self._kept):  # rebuilt from the log; processes that have the old ones open no longer write
            (each / self._shm).unlink(missing_ok=True)
        new.replace(self.wal)
        logger.warning("%s was cut short while the store was in use; what was in it has been put back", self.wal)

    def _restore_shm(self) -> None:
        here, kept = self._folder / self._shm, self._kept / self._shm
        if not kept.exists():
            return
        if _is_cut(kept):  # SQLite would read what is left of it; if it is missing, SQLite rebuilds it from the write-ahead log
            for each in (here, kept):
                each.unlink(missing_ok=True)
            return
        if self._is_same(self._shm):
            return
        if _is_locked(kept, SHM_IN_USE):
            with suppress(FileNotFoundError):
                here.unlink()  # it has nothing that the write-ahead log lacks
            self._put_back(self._shm)
        else:
            kept.unlink()

    def _leave_to_the_replacement(self) -> None:
        """The database was replaced, for example by a backup, while nobody had it open: remove what belongs to the old one."""
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
        """Make the files readable and writable for us, even if somebody changed their modes."""
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
        """Whether the database may lack part of this log: whoever closes the store copies all of it there, so the database is
        newer then."""
        written = (self._folder / self._database).stat().st_mtime_ns
        marked = self._kept / MARK
        return kept_wal.stat().st_mtime_ns >= written or (marked.exists() and marked.stat().st_mtime_ns >= written)

    def _may_be_meant(self) -> bool:
        """Whether somebody put another database in its place on purpose, rather than none, or the same one."""
        import filecmp  # only here

        here, kept = self._folder / self._database, self._kept / self._database
        with here.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return False
        return not filecmp.cmp(here, kept, shallow=False)


def _goes_further(kept: Path, here: Path) -> bool:
    """Whether the first write-ahead log has all of the second, and perhaps more. Nobody may have them open."""
    (salt, frames), (salt_here, frames_here) = committed_frames(kept), committed_frames(here)
    return frames > 0 and (frames_here == 0 or (salt == salt_here and frames >= frames_here))


def _is_cut(shm: Path) -> bool:
    """Whether somebody else truncated it: SQLite extends it by whole units and never shortens it while it is in use."""
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
            os.close(descriptor)  # closing the shared memory's would free locks that SQLite may have in this process


def _now() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(2).hex()}"
