"""Pages of one log for viewers, each read, decoded and encoded once for everybody who wants it at about the same time.

Pages are kept until none has been requested for a moment: viewers come back in crowds after a restart of a server or network.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.log.tail import Tail
from understudy.engine.steps import PAGE_BYTES, PAGE_RECORDS, Pace
from understudy.protocol.records import Entry
from understudy.store.log import EventLog

MOST_PAGES = 8  # kept pages of one conversation
KEPT_SECONDS = 2.0
SHOWN_FOR_A_SHARE = 4  # already encoded records

ReadEntries = Callable[[int, int, int], Awaitable[Sequence[Entry]]]
"""Reads the entries after a record, limited in number and bytes."""


async def read_shown(log: EventLog, tail: Tail, after: int, limit: int, most_bytes: int) -> Sequence[Entry]:
    """Entries that viewers may be shown. The disk may be a moment ahead of that; the newer entries are left out."""
    entries = await log.read(tail.conversation_id, after, limit, most_bytes)
    if entries and entries[-1].seq > tail.broadcast.published:
        tail.note_committed(entries[-1].seq)
    return [entry for entry in entries if entry.seq <= tail.broadcast.published]


async def read_back(log: EventLog, tail: Tail, pace: Pace, after: int, limit: int | None = None) -> Sequence[Entry]:
    """All entries, or at most `limit`, for a single reader: one page per step of the event loop."""
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
        self.is_full = False  # nothing more is added to it

    def has_all(self, published: int) -> bool:
        return self.is_full or (bool(self.entries) and self.entries[-1].entry.seq >= published)


class SharedPages:
    def __init__(self, loop: asyncio.AbstractEventLoop, pace: Pace, read: ReadEntries) -> None:
        self._loop = loop
        self._pace = pace
        self._read = read
        self._pages: OrderedDict[int, _Page] = OrderedDict()  # by the record before them
        self._used = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def after(self, seq: int, published: int) -> Sequence[LiveEntry]:
        """The next entries after record `seq`; none if nothing after it is published. Waits for a step with enough room."""
        if seq >= published:
            return ()
        begin = seq - seq % PAGE_RECORDS  # so that viewers at different records share pages
        page = await self._page(begin, published)
        # the page ends early because its records are large
        if begin != seq and (not page.entries or page.entries[-1].entry.seq <= seq):
            begin, page = seq, await self._page(seq, published)
        found = page.entries if begin == seq else [live for live in page.entries if live.entry.seq > seq]
        await self._pace.take(len(found) // SHOWN_FOR_A_SHARE)
        return tuple(found)

    async def between(self, seq: int, last: int, published: int) -> Sequence[LiveEntry]:
        """All entries after record `seq`, up to `last`."""
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
            page = self._pages.get(begin)  # another viewer may have read it meanwhile
            if page is None or not page.has_all(published):
                page = await self._read_on(begin, published)
        if begin in self._pages:  # otherwise it was dropped during the read
            self._pages.move_to_end(begin)
        self._keep_for_a_moment()
        return page

    async def _read_on(self, begin: int, published: int) -> _Page:
        page = self._pages.setdefault(begin, _Page())  # even if it is dropped during the read, it stays complete from its beginning
        last = page.entries[-1].entry.seq if page.entries else begin
        entries = await self._read(last, begin + PAGE_RECORDS - last, PAGE_BYTES)
        end = page.entries[-1].entry.seq if page.entries else begin
        if end == last:  # otherwise another viewer has read them meanwhile
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
        """Drop all pages."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pages.clear()
