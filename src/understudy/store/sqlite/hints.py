"""Detects that another process has written: every writer touches a small file, and listeners watch it."""

import asyncio
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from understudy.protocol.ids import ConversationId
from understudy.store.locks import HAS_OWNERS, ByteLocks
from understudy.store.log import Listener

CELL = 8
CELLS = 128
SHARED = CELLS - 1  # for processes that find no free cell: they cannot tell their own changes from others'
MARK = CELL * CELLS  # place of a random number; whoever finds the file cut short writes a new one, so that all notice the loss
SIZE = MARK + CELL
_NO_MARK = bytes(CELL)

_never_the_same = itertools.count()


class Bell:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks: ByteLocks | None = None
        self._former: list[ByteLocks] = []  # of files that were deleted or replaced
        self._cell = SHARED
        self._open()

    def ring(self) -> None:
        """Tell others that something was written, or is about to be."""
        locks = self._locks or self._open()
        if locks is not None:
            try:
                os.pwrite(locks.fd, time.monotonic_ns().to_bytes(CELL, "little"), self._cell * CELL)
            except OSError:
                self.close()  # a full disk, say: until it can be opened again, everything counts as changed

    def heard(self) -> bytes:
        """A value that stays the same only while nobody else rings."""
        if self._locks is None or self._cell == SHARED:
            return _different()
        try:
            cells = os.pread(self._locks.fd, SIZE, 0)
            if len(cells) < SIZE or cells[MARK:] == _NO_MARK:
                _mark(self._locks.fd)
                return _different()
        except OSError:
            return _different()
        at = self._cell * CELL
        return cells[:at] + cells[at + CELL :]

    def close(self) -> None:
        for locks in (self._locks, *self._former):
            if locks is not None:
                locks.close()
        self._locks, self._cell = None, SHARED
        self._former.clear()

    def look_again(self) -> None:
        """Call it when names in the folder have changed. If this file was deleted or replaced, the next ring opens the one others
        use."""
        if self._locks is not None and not self._locks.is_there:
            self._former.append(self._locks)  # not closed, because the writer's thread may be about to write to it
            self._locks, self._cell = None, SHARED

    def _open(self) -> ByteLocks | None:
        """If it cannot be opened, for example on a full disk, everything counts as changed, and the next ring tries again."""
        locks: ByteLocks | None = None
        try:
            locks = ByteLocks(self._path)
            if os.fstat(locks.fd).st_size < SIZE:
                _mark(locks.fd)
        except OSError:
            if locks is not None:
                locks.close()
            return None
        self._locks = locks
        free = range(SHARED) if HAS_OWNERS else ()
        self._cell = next((cell for cell in free if locks.try_lock(cell)), SHARED)
        return locks


def _mark(fd: int) -> None:
    os.pwrite(fd, os.urandom(CELL - 1) + b"\1", MARK)


def _different() -> bytes:
    return str(next(_never_the_same)).encode()


logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
QUIET_LOOKS = 25  # looks in a row without news, after which the alarm is set
SLOW_SECONDS = 5.0  # between two looks while the alarm is set

_WRITTEN = 0x2 | 0x4 | 0x400 | 0x800  # modified; attributes; removed; moved
_NAMES = 0x40 | 0x80 | 0x100 | 0x200  # moved from, moved to, made, removed
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class FileAlarm:
    """Reports once that a file was written to, or that names in its folder changed: by inotify, through ctypes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._watched = ((os.fsencode(file), _WRITTEN), (os.fsencode(file.parent), _NAMES))
        self._descriptor = -1

    def arm(self, told: Callable[[], None]) -> bool:
        """Call `told` once, at the next event. False if this is not possible here."""
        self.disarm()
        library = _library()
        if library is None or (descriptor := library.inotify_init1(_FLAGS)) < 0:
            return False
        if any(library.inotify_add_watch(descriptor, path, events) < 0 for path, events in self._watched):
            os.close(descriptor)
            return False

        def happened() -> None:
            self.disarm()
            told()

        self._descriptor = descriptor
        self._loop.add_reader(descriptor, happened)
        return True

    def disarm(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


@cache
def _library() -> Any:
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        library = ctypes.CDLL(None)
        _ = library.inotify_init1, library.inotify_add_watch
    except (ImportError, AttributeError, OSError):
        return None
    return library


class WriteHints:
    """`changes` returns a number that stays the same while no other process writes, `is_held` whether another process has a claim.

    `check_claims` finds out whether our own claims are still valid. `alarm` reports whatever can change these answers, except that
    another process with a claim has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        changes: Callable[[], int],
        is_held: Callable[[ConversationId], bool],
        check_claims: Callable[[], None],
        alarm: FileAlarm | None = None,
    ) -> None:
        self._loop = loop
        self._changes = changes
        self._is_held = is_held
        self._check_claims = check_claims
        self._listening: dict[ConversationId, list[Listener]] = {}
        self._seen_held: set[ConversationId] = set()  # a caller was told that another process holds these
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = alarm
        self._asleep = False  # the alarm is set
        self._quiet = 0  # looks in a row without news

    @property
    def asleep(self) -> bool:
        """Whether we rely on the kernel to wake us."""
        return self._asleep

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        self._listening.setdefault(conversation_id, []).append(told)
        if self._timer is None and self._loop is not None:
            self._seen = self._changes()
            self._timer = self._loop.call_later(POLL_SECONDS, self._poll)

        def stop() -> None:
            listening = self._listening.get(conversation_id, [])
            if told in listening:
                listening.remove(told)
            if not listening:
                self._listening.pop(conversation_id, None)
                self._seen_held.discard(conversation_id)

        return stop

    def note_holder(self, conversation_id: ConversationId, *, held: bool) -> None:
        """The caller was told this answer, so listeners must learn when it changes."""
        if held:
            self._seen_held.add(conversation_id)
            self._look_often()  # the kernel does not report the end of a holder
        else:
            self._seen_held.discard(conversation_id)

    def close(self) -> None:
        self._listening.clear()
        self._wake_up()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_often(self) -> None:
        self._wake_up()
        if self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = self._loop.call_later(POLL_SECONDS, self._poll)

    def _wake_up(self) -> None:
        self._asleep, self._quiet = False, 0
        if self._alarm is not None:
            self._alarm.disarm()

    def _fall_asleep(self) -> bool:
        """Set the alarm. False if that is not possible."""
        if self._alarm is None or self._seen_held or self._quiet < QUIET_LOOKS:
            return False
        self._quiet = 0
        self._asleep = self._alarm.arm(self._awake)
        return self._asleep

    def _awake(self) -> None:
        self._look_often()
        self._poll()

    def _poll(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is None or not self._listening:
            self._wake_up()
            return
        asleep = self._asleep or self._fall_asleep()  # before the look, so that nothing falls between the two
        self._timer = self._loop.call_later(SLOW_SECONDS if asleep else POLL_SECONDS, self._poll)
        self._check_claims()
        seen, self._seen = self._seen, self._changes()
        if self._seen != seen:
            self._look_often()
        self._quiet += 1
        freed = [name for name in self._seen_held if not self._is_held(name)]
        self._seen_held.difference_update(freed)
        for name in list(self._listening) if self._seen != seen else freed:
            for told in tuple(self._listening.get(name, ())):
                try:
                    told()
                except Exception:  # a failing listener must not keep the others from being called
                    logger.exception("bug in telling of a change in %s", name)
