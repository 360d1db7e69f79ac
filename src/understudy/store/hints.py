"""Telling those who listen that another process may have done something.

Looks often while things happen. Where nothing has happened for a while, the kernel is asked to wake us, and one look a second is
enough.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from understudy.protocol.ids import ConversationId
from understudy.store.log import Listener

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
QUIET_LOOKS = 25  # in a row without anything new: then the alarm is set
SLOW_SECONDS = 5.0  # between two looks while it is set

_WRITTEN = 0x2 | 0x4 | 0x400 | 0x800  # modified; attributes; removed; moved
_NAMES = 0x40 | 0x80 | 0x100 | 0x200  # moved from, moved to, made, removed
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class FileAlarm:
    """Tells once that a file was written to, or that names in its folder changed: by inotify, through ctypes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop = loop
        self._watched = ((os.fsencode(file), _WRITTEN), (os.fsencode(file.parent), _NAMES))
        self._descriptor = -1

    def arm(self, told: Callable[[], None]) -> bool:
        """Have `told` called once, as soon as something happens after this; False where that cannot be done here."""
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
    """`changes` gives a number that stays the same while no other process writes, `is_held` whether another one has a claim.

    `check_claims` finds out whether our own claims still hold. `alarm` wakes for whatever would change these answers, but for the
    end of another process that has a claim.
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
        self._seen_held: set[ConversationId] = set()  # whoever asked was told that another process has them
        self._seen = 0
        self._timer: asyncio.TimerHandle | None = None
        self._alarm = alarm
        self._asleep = False  # the alarm is set
        self._quiet = 0  # looks in a row that found nothing

    @property
    def asleep(self) -> bool:
        """Whether the kernel is to wake us."""
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
        """Whoever asked is to be told when that changes."""
        if held:
            self._seen_held.add(conversation_id)
            self._look_often()  # the kernel does not tell of its end
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
        """Whether the alarm is set, so that what happens from now on is told."""
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
        asleep = self._asleep or self._fall_asleep()  # before the look, which sees what happened until then
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
                except Exception:  # the others are told all the same
                    logger.exception("bug in telling of a change in %s", name)
