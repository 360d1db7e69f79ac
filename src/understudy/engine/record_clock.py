"""What time records are given. A clock that is set back, perhaps by mistake, is not believed at once.

What is begun while it is wrong would be as old as the clock says, and be deleted for its age once the clock is right again.
"""

import sys
import time
from collections.abc import Callable

JUMP_SECONDS = 3600.0
DOUBT_SECONDS = 3600.0


def _elapsed() -> float:
    """Seconds that nobody can set, of sleep too where the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


class RecordClock:
    def __init__(self, clock: Callable[[], float] = time.time, elapsed: Callable[[], float] = _elapsed) -> None:
        self._clock = clock
        self._elapsed = elapsed
        self._ahead = clock() - elapsed()  # of the time that has passed
        self._before_jump: float | None = None  # the same, before the clock was set forward
        self._back_since: float | None = None

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


record_time = RecordClock().now
