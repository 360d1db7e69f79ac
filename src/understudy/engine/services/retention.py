"""How long conversations are kept and how large the store may grow. A clock that jumps is not trusted."""

import asyncio
import logging
import os
import sys
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Literal

import msgspec

from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.errors import AgentError, StoreError
from understudy.store.log import Listed

logger = logging.getLogger(__name__)

JUMP_SECONDS = 3600.0  # by which the clock may be ahead of the time passed since the last look
AWAY_SECONDS = 24 * 3600.0  # since the last look, after a restart of the machine: it may have been off
DOUBT_SECONDS = 3600.0


class _Look(msgspec.Struct):
    """What is saved of the last look."""

    time: float  # the trusted time
    boot: str = ""  # the run of the machine in which `elapsed` counts
    elapsed: float = 0.0
    doubted: float | None = None  # what the clock said when the doubt began
    stood: float = 0.0  # seconds for which a server ran while the clock stayed at least that late


def _elapsed() -> float:
    """Seconds that nobody can set, including sleep if the system counts it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def _boot() -> str:
    """The id of this run of the machine; empty if there is none."""
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
        """`path`: the file with the last look."""
        self._path = path
        self._clock = clock
        self._elapsed = elapsed
        self._boot = boot()
        self._then, self._at = clock(), elapsed()  # a moment whose time is not in doubt
        self._doubted: float | None = None
        self._stood, self._stood_at = 0.0, self._at  # how long the doubted clock has been consistent, up to that moment
        if (before := self._read()) is not None:
            self._go_on_from(before)

    def _go_on_from(self, before: _Look) -> None:
        if self._boot and before.boot == self._boot and before.elapsed <= self._at:  # the time without a server is known
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
        return _Look(kept) if isinstance(kept, float) else kept  # earlier versions saved only the time

    def _write(self, believed: float, moment: float) -> None:
        look = _Look(believed, self._boot, moment, self._doubted, self._stood if self._doubted is not None else 0.0)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with suppress(OSError):  # if this fails, a wrong clock is noticed only while the server runs
            beside.write_bytes(msgspec.json.encode(look))
            os.replace(beside, self._path)


Reason = Literal["age", "size"]

DAY_SECONDS = 86_400.0
USED_LATELY_SECONDS = DAY_SECONDS
DOWN_TO = 0.9  # share of the limit, so that not every new record deletes a conversation
AT_ONCE = 256  # conversations that are examined and deleted together: each waits until the search index has forgotten it
MOST_RECORDS = 4_000  # of those that are deleted together, because turns wait meanwhile


class Retention:
    def __init__(
        self,
        engine: Engine,
        keep_days: int,
        max_store_mb: int,
        told: Callable[[Reason], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """0 means no limit. `told` hears of each deleted conversation. `clock` replaces the system's."""
        self._engine = engine
        self._now = DoubtingClock(state_dir(engine.home) / "last_retention").now if clock is None else clock
        self._keep_days = keep_days
        self._most_mb = max_store_mb
        self._told = told

    async def run(self, seconds: float) -> None:
        """Check again and again, so many seconds apart."""
        while True:
            try:
                await self.look()
            except (AgentError, OSError) as error:
                logger.warning("conversations that are too old or too many were not deleted: %s", error)
            except Exception:
                logger.exception("bug in retention")
            await asyncio.sleep(seconds)

    async def look(self) -> None:
        deleted = 0
        if self._keep_days:
            deleted += await self._delete_old()
        if self._most_mb:
            deleted += await self._make_room()
        if deleted or self._most_mb:
            freed = await self._engine.log.shrink()
            if freed:
                logger.info("the store's file is %d bytes smaller", freed)

    async def _delete_old(self) -> int:
        before = self._now() - self._keep_days * DAY_SECONDS
        why = f"`keep_days` is {self._keep_days}"
        deleted = 0
        for archived in (True, False):
            async for rows in self._oldest(archived=archived):
                old = [listed for listed in rows if listed.updated_at < before]
                deleted += await self._delete(old, "age", why)
                if len(old) < len(rows):
                    break
        return deleted

    async def _make_room(self) -> int:
        most = self._most_mb << 20
        used = await self._engine.log.used()
        deleted = 0
        if used > most:
            deleted = await self._delete_down_to(int(most * DOWN_TO))
            used = await self._engine.log.used()
        if used > most:
            reason = (
                f"the store is full: it holds {used >> 20} MB, `understudy.serve.max_store_mb` is {self._most_mb}, and all of "
                "it was used within a day. Delete conversations, or raise the limit"
            )
            if self._engine.takes_no_new is None:
                logger.error("no new conversation is begun: %s", reason)
            self._engine.takes_no_new = reason
        elif self._engine.takes_no_new is not None:
            logger.warning("new conversations are begun again: the store has room")
            self._engine.takes_no_new = None
        return deleted

    async def _delete_down_to(self, wanted: int) -> int:
        before = self._now() - USED_LATELY_SECONDS
        why = f"the store is larger than `max_store_mb`, {self._most_mb}"
        deleted = 0
        for archived in (True, False):
            async for rows in self._oldest(archived=archived):
                left = [listed for listed in rows if listed.updated_at < before]
                while left and (most := await self._most_needed(wanted)):
                    deleted += await self._delete(left[:most], "size", why)
                    del left[:most]
                if left or rows[-1].updated_at >= before:
                    break
        return deleted

    async def _most_needed(self, wanted: int) -> int:
        """How many can go together without more of them going than must: half of what would do if all were equally large."""
        log = self._engine.log
        used = await log.used()
        return 0 if used <= wanted else max(1, int((used - wanted) / used * await log.count() / 2))

    async def _oldest(self, *, archived: bool) -> AsyncIterator[Sequence[Listed]]:
        """Each conversation once, even if it could not be deleted; as many together as can be deleted together."""
        after = (0.0, "")
        while rows := await self._engine.log.oldest(AT_ONCE, after, archived=archived):
            records = list(accumulate(listed.last_seq for listed in rows))
            rows = rows[: max(1, bisect_right(records, MOST_RECORDS))]
            after = rows[-1].updated_at, rows[-1].conversation_id
            yield rows

    async def _delete(self, rows: Sequence[Listed], reason: Reason, why: str) -> int:
        outcomes = await asyncio.gather(*(self._delete_one(listed, reason, why) for listed in rows), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return outcomes.count(True)

    async def _delete_one(self, listed: Listed, reason: Reason, why: str) -> bool:
        try:
            deleted = await self._engine.retire(listed)
        except StoreError as error:
            logger.warning("conversation %s was not deleted: %s", listed.conversation_id, error)
            return False
        if deleted:
            self._told(reason)
            last = datetime.fromtimestamp(listed.updated_at, UTC).isoformat(timespec="seconds")
            logger.warning("conversation %s of %s, last used %s, was deleted: %s", listed.conversation_id, listed.owner, last, why)
        return deleted
