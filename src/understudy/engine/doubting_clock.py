"""What time it is for those who delete what is old. A clock that was set forward, perhaps by mistake, is not believed at once.

A wrong clock would make everything old, and what is deleted does not come back. So when the clock jumps ahead of the time that has
really passed, the time goes on as before until the clock has stood by what it says for an hour in which a server ran: in that hour
it can be put right. The last look is kept in a file. So a machine that starts with a wrong clock is noticed, and the minutes of
servers that never run for an hour add up.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

logger = logging.getLogger(__name__)

JUMP_SECONDS = 3600.0  # ahead of the time that has passed since the last look
AWAY_SECONDS = 24 * 3600.0  # since the last look before the machine was started again: it may have been off
DOUBT_SECONDS = 3600.0


class _Look(msgspec.Struct):
    """What is kept of the last one."""

    time: float  # that was believed
    boot: str = ""  # while which `elapsed` counts
    elapsed: float = 0.0
    doubted: float | None = None  # what the clock said when the doubt began
    stood: float = 0.0  # seconds for which a server ran and the clock said no less than that


def _elapsed() -> float:
    """Seconds that nobody can set, of sleep too where the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def _boot() -> str:
    """The name of this run of the machine; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class DoubtingClock:
    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = _elapsed,
        boot: Callable[[], str] = _boot,
    ) -> None:
        """`path`: of the file with the last look."""
        self._path = path
        self._clock = clock
        self._elapsed = elapsed
        self._boot = boot()
        self._then, self._at = clock(), elapsed()  # the time at a moment that is not in doubt
        self._doubted: float | None = None
        self._stood, self._stood_at = 0.0, self._at  # seconds for which it did until that moment
        if (before := self._read()) is not None:
            self._go_on_from(before)

    def _go_on_from(self, before: _Look) -> None:
        if self._boot and before.boot == self._boot and before.elapsed <= self._at:  # how long no server ran is known
            self._then, self._at = before.time, before.elapsed
        elif self._then - before.time > AWAY_SECONDS:
            self._then = before.time
        else:
            return
        self._doubted, self._stood = before.doubted, before.stood

    def now(self) -> float:
        """Seconds since the epoch."""
        told, moment = self._clock(), self._elapsed()
        if self._doubted is not None:
            self._stood += moment - self._stood_at
            if told < self._doubted:
                self._doubted, self._stood = told, 0.0
            elif self._stood >= DOUBT_SECONDS:
                self._then, self._at = self._doubted + self._stood, moment
                self._doubted = None
        passed = self._then + moment - self._at
        if told - passed > JUMP_SECONDS:
            if self._doubted is None:
                self._doubt(told, passed)
            self._stood_at = moment
            self._write(passed, moment)
            return passed
        if self._doubted is not None:
            logger.warning("the clock was put right: it is believed again, for what is too old to be kept")
            self._doubted = None
        self._then, self._at = told, moment
        self._write(told, moment)
        return told

    def _doubt(self, told: float, passed: float) -> None:
        self._doubted, self._stood = told, 0.0
        logger.warning(
            "the clock is %.0f hours ahead of the last time that a server was at work here: it was set forward, or no server ran. "
            "Nothing is deleted for its age by it before a server has run for an hour",
            (told - passed) / 3600,
        )

    def _read(self) -> _Look | None:
        try:
            kept = msgspec.json.decode(self._path.read_bytes()[:4096], type=_Look | float)
        except (OSError, msgspec.DecodeError):
            return None
        return _Look(kept) if isinstance(kept, float) else kept  # earlier versions kept only the time

    def _write(self, believed: float, moment: float) -> None:
        look = _Look(believed, self._boot, moment, self._doubted, self._stood if self._doubted is not None else 0.0)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):  # then a wrong clock is noticed only while the server runs
            beside.write_bytes(msgspec.json.encode(look))
            os.replace(beside, self._path)
