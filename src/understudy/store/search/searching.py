"""Search in a store on SQLite: first bring the index up to date with the log, in steps, then query it.

With each commit, triggers in the store note which conversations the index lacks, whichever process writes. Before the first
search builds the index, nobody pays for more than that.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from understudy.errors import StoreError
from understudy.store.log import Committed
from understudy.store.search import noting
from understudy.store.search.asked import PATIENCE_SECONDS, Found, Mask, Wanted
from understudy.store.search.index import Index, IndexLost, NotOfThisStore, Step
from understudy.store.search.words import read_question
from understudy.store.sqlite.writing import Row

logger = logging.getLogger(__name__)

TIDYING_SECONDS = 1.0  # how long a deletion waits for it
TRIES = 3  # of a search, if the index is lost meanwhile
SOON_SECONDS = 1.0  # by then the writer has committed what it was given, and a burst is over
ENOUGH_TO_CATCH_UP = 500  # records by this process that the index lacks

Note = Callable[[Callable[[sqlite3.Connection], list[Row]], Committed], None]


class Searching:
    """`note` writes to the log, on the writer's thread; `check` raises `StoreError` if the store is gone."""

    def __init__(self, index: Index, note: Note, check: Callable[[], None]) -> None:
        self._index = index
        self._note = note
        self._check = check
        self._at_work: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._forgetting: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._missing = 0
        self._closed = False

    async def find(self, wanted: Wanted, mask: Mask, patience: float = PATIENCE_SECONDS) -> Found:
        read_question(wanted.words)  # a bad question fails before any work is done
        give_up = time.monotonic() + patience
        for _ in range(TRIES - 1):
            with suppress(IndexLost):  # the index can be lost: the log has everything
                return await self._find(wanted, mask, give_up)
        return await self._find(wanted, mask, give_up)

    async def _find(self, wanted: Wanted, mask: Mask, give_up: float) -> Found:
        self._check()
        await self._wait_until_caught_up(give_up)
        self._check()
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._index.find, wanted, mask)

    def close(self) -> None:
        self._closed = True
        self._index.close()

    # -- keeping it near the log

    def note_appended(self, records: int) -> None:
        """Does nothing if nobody has ever searched."""
        self._missing += records
        if self._missing >= ENOUGH_TO_CATCH_UP:
            self._missing = 0
            asyncio.get_running_loop().call_later(SOON_SECONDS, self._catch_up_soon)

    def _catch_up_soon(self) -> None:
        if self._index.exists and not self._closed:
            self._begin()

    def once_forgotten(self, done: Committed) -> Committed:
        """For a deletion: calls `done` once no search finds the conversation. If that is quick, its words have left the file,
        too."""

        def told(error: BaseException | None) -> None:
            if error is not None:
                done(error)
                return
            forgetting = asyncio.create_task(self._forget_deleted(), name="forget in the search index")
            self._forgetting.add(forgetting)
            forgetting.add_done_callback(self._forgetting.discard)
            forgetting.add_done_callback(lambda _: done(None))

        return told

    async def _forget_deleted(self) -> None:
        """If it fails, the next search does it."""
        try:
            while not self._closed and self._index.exists and (await self._step(only_deleted=True)).more:
                pass
            await asyncio.wait([self._begin_tidying()], timeout=TIDYING_SECONDS)
        except NotOfThisStore:
            return
        except StoreError as error:
            logger.warning("words of a deleted conversation are forgotten with the next search: %s", error)

    def _begin_tidying(self) -> asyncio.Task[None]:
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy(), name="tidy the search index")
            self._tidying.add_done_callback(_look_at)
        return self._tidying

    async def _tidy(self) -> None:
        more = True
        while more and not self._closed and self._index.exists:
            async with self._one_at_a_time:
                more = await asyncio.to_thread(self._index.close_holes)
            await asyncio.sleep(0)  # let searches go first

    def _begin(self) -> asyncio.Task[None]:
        if self._at_work is None or self._at_work.done():
            self._at_work = asyncio.create_task(self._catch_up(), name="search index")
            self._at_work.add_done_callback(_look_at)
        return self._at_work

    async def _wait_until_caught_up(self, give_up: float) -> None:
        """Wait until the index has all that was committed before the search was asked for, whichever process adds it."""
        if self._at_work is not None and not self._at_work.done():  # the step under way may have missed the latest commit
            await self._wait(self._at_work, give_up)
        await self._wait(self._begin(), give_up)

    async def _wait(self, work: asyncio.Task[None], give_up: float) -> None:
        await asyncio.wait([work], timeout=max(0.0, give_up - time.monotonic()))
        if not work.done():
            missing, of = await asyncio.to_thread(self._index.progress)
            to_go = f"{missing} of {of} conversations to go"
            raise StoreError(f"conversation store: the search index is being made ({to_go}); search again in a while")
        work.result()

    async def _catch_up(self) -> None:
        before = None
        while not self._closed:
            try:
                step = await self._step()
            except NotOfThisStore:
                await self._begin_anew()
                continue
            if not step.more or (step.done and step.done == before):  # without progress, stop: the log may be unable to note it
                break
            before = step.done
        self._begin_tidying()  # finish what a process left that has ended

    async def _step(self, *, only_deleted: bool = False) -> Step:
        async with self._one_at_a_time:
            step = await asyncio.to_thread(self._index.catch_up, only_deleted=only_deleted)
            if step.done:
                await self._noted(partial(noting.done, step.done, step.reached))
        return step

    async def _begin_anew(self) -> None:
        async with self._one_at_a_time:
            mark = await asyncio.to_thread(self._index.begin_anew)
            if mark is None:
                return
            noted = False
            try:
                await self._noted(partial(noting.index, mark))
                noted = True
            finally:
                await asyncio.to_thread(self._index.end_anew, noted=noted)

    async def _noted(self, rows: Callable[[sqlite3.Connection], list[Row]]) -> None:
        """Wait until the writer has noted these rows. Raises `StoreError`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self._note(rows, told)
        await done


def _look_at(work: asyncio.Task[None]) -> None:
    """Fetch the error of a task that perhaps nobody awaited; the next search meets the same one."""
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.info("the search index was not brought up to the log: %s", error)
