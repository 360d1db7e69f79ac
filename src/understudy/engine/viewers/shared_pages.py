"""Pages of one log as viewers read them back, each read, decoded and encoded once for all who want it at about the same time.

A page is kept until nobody has asked for any for a moment: viewers come back in crowds, when a server or a network has.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.log.tail import Tail
from understudy.engine.steps import PAGE_BYTES, PAGE_RECORDS, Pace
from understudy.protocol.records import Entry
from understudy.store.log import EventLog

MOST_PAGES = 8  # of one conversation
KEPT_SECONDS = 2.0
SHOWN_FOR_A_SHARE = 4  # records that are encoded already

ReadEntries = Callable[[int, int, int], Awaitable[Sequence[Entry]]]
"""Those after a record: at most so many, and none after so many bytes."""


async def read_shown(log: EventLog, tail: Tail, after: int, limit: int, most_bytes: int) -> Sequence[Entry]:
    """Entries that viewers may be shown. The disk may be a moment ahead of what was shown: not after this."""
    entries = await log.read(tail.conversation_id, after, limit, most_bytes)
    if entries and entries[-1].seq > tail.broadcast.published:
        tail.note_committed(entries[-1].seq)
    return [entry for entry in entries if entry.seq <= tail.broadcast.published]


async def read_back(log: EventLog, tail: Tail, pace: Pace, after: int, limit: int | None = None) -> Sequence[Entry]:
    """For one reader: all of them, or so many, a page in a step of the event loop."""
    found: list[Entry] = []
    while limit is None or len(found) < limit:
        wanted = PAGE_RECORDS if limit is None else min(PAGE_RECORDS, limit - len(found))
        await pace.take(wanted)
        page = await read_shown(log, tail, after, wanted, PAGE_BYTES)
        found += page
        if not page or page[-1].seq >= tail.broadcast.published:
            break
        after = page[-1].seq
    return found


class _Page:
    def __init__(self) -> None:
        self.entries: list[LiveEntry] = []
        self.is_full = False  # nothing is added to it any more

    def has_all(self, published: int) -> bool:
        return self.is_full or (bool(self.entries) and self.entries[-1].entry.seq >= published)


class SharedPages:
    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace, read: ReadEntries) -> None:
        self._loop = loop
        self._pace = pace
        self._read = read
        self._pages: OrderedDict[int, _Page] = OrderedDict()  # by the record that they come after
        self._used = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def after(self, seq: int, published: int) -> Sequence[LiveEntry]:
        """The next entries after that record; none where nothing after it was published. In a step that has room for them."""
        if seq >= published:
            return ()
        begin = seq - seq % PAGE_RECORDS  # so that viewers who stand at different records share pages
        page = await self._page(begin, published)
        if begin != seq and (not page.entries or page.entries[-1].entry.seq <= seq):  # it ends early: its records are large
            begin, page = seq, await self._page(seq, published)
        found = page.entries if begin == seq else [live for live in page.entries if live.entry.seq > seq]
        await self._pace.take(len(found) // SHOWN_FOR_A_SHARE)
        return tuple(found)

    async def between(self, seq: int, last: int, published: int) -> Sequence[LiveEntry]:
        """All entries after that record, up to the last."""
        found: list[LiveEntry] = []
        last = min(last, published)
        while seq < last and (page := await self.after(seq, published)):
            found += [live for live in page if live.entry.seq <= last]
            seq = page[-1].entry.seq
        return found

    async def _page(self, begin: int, published: int) -> _Page:
        page = self._pages.get(begin)
        if page is None or not page.has_all(published):
            await self._pace.take(PAGE_RECORDS)
            page = self._pages.get(begin)  # somebody may have read it meanwhile
            if page is None or not page.has_all(published):
                page = await self._read_on(begin, published)
        if begin in self._pages:  # else it was dropped again while it was read
            self._pages.move_to_end(begin)
        self._keep_for_a_moment()
        return page

    async def _read_on(self, begin: int, published: int) -> _Page:
        page = self._pages.setdefault(begin, _Page())  # also where it is dropped while it is read: it has all from its beginning on
        last = page.entries[-1].entry.seq if page.entries else begin
        entries = await self._read(last, begin + PAGE_RECORDS - last, PAGE_BYTES)
        end = page.entries[-1].entry.seq if page.entries else begin
        if end == last:  # else somebody has read them meanwhile
            page.entries += map(LiveEntry, entries)
            end = page.entries[-1].entry.seq if page.entries else begin
            page.is_full = end >= begin + PAGE_RECORDS or (bool(entries) and end < published)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        return page

    def _keep_for_a_moment(self) -> None:
        self._used = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(KEPT_SECONDS, self._forget_unused)

    def _forget_unused(self) -> None:
        left = self._used + KEPT_SECONDS - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._forget_unused)
        else:
            self.close()

    def close(self) -> None:
        """Forget what is kept."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pages.clear()
