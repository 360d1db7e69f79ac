"""The time that records get. If the clock is set back, perhaps by mistake, the new time is not believed at once.

A conversation begun with a wrong old time would be deleted for its age once the clock is right again. A process that starts with
such a clock notices it by the newest record in the store. So our time goes on from there, until the clock has not been set back
for an hour. Processes that live for less than that leave a note for each other.
"""

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

JUMP_SECONDS = 3600.0
DOUBT_SECONDS = 3600.0


# A clock that cannot be set; it also counts time asleep where the system offers that.
_elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic


class RecordClock:
    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = _elapsed,
        *,
        newest: float = 0.0,
        note: Path | None = None,
    ) -> None:
        """`newest`: the time of the newest record. `note`: the file by which processes tell each other of a doubted clock."""
        self._clock = clock
        self._elapsed = elapsed
        told, moment = clock(), elapsed()
        self._ahead = told - moment  # wall clock minus elapsed time
        self._before_jump: float | None = None  # the same, from before the clock was set forward
        self._back_since: float | None = None
        if newest - told > JUMP_SECONDS:
            if not _has_stood(told, note):
                self._ahead, self._back_since = newest - moment, moment
        elif note is not None:
            with suppress(OSError):  # remove a note about another time; usually there is none
                os.unlink(note)

    def now(self) -> float:
        told, moment = self._clock(), self._elapsed()
        ahead = told - moment
        if ahead < self._ahead - JUMP_SECONDS and not self._was_put_right(ahead):
            if self._back_since is None:
                self._back_since = moment
            if moment - self._back_since < DOUBT_SECONDS:
                return self._ahead + moment
        if ahead > self._ahead + JUMP_SECONDS:
            self._before_jump = self._ahead
        self._ahead, self._back_since = ahead, None
        return told

    def _was_put_right(self, ahead: float) -> bool:
        return self._before_jump is not None and abs(ahead - self._before_jump) < JUMP_SECONDS


def _has_stood(told: float, note: Path | None) -> bool:
    """Whether an earlier process doubted the clock for the same reason, and it has not been set back for an hour since."""
    if note is None:
        return False
    try:
        doubted = float(note.read_bytes()[:64])
    except (OSError, ValueError):
        doubted = math.nan
    if DOUBT_SECONDS < told - doubted < math.inf:
        return True
    if not 0 <= told - doubted <= DOUBT_SECONDS:
        beside = note.with_name(f".{note.name}.{os.getpid()}")
        with suppress(OSError):  # without the note, each process doubts the clock anew
            beside.write_text(repr(told), encoding="ascii")
            os.replace(beside, note)
    return False
