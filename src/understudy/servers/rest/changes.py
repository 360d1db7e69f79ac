"""`GET /v1/changes`: rows of the list as they change, for a live list on a screen. All watchers share the same checks.

The list is checked four times a second, only while somebody watches. The log's notifications cannot replace this: each is for one
conversation, they poll themselves, and they say nothing about viewers or a process that died. A check takes about a millisecond.

The most recently active rows are checked each time. Below them a row can change without moving up, when it is archived, deleted or
watched, or when its turn's process dies. So a sweep goes round all rows, a few at each check, and notices such changes a little
later. It keeps only a digest of each row, so that a long list costs little memory.
"""

import asyncio
import logging
from collections.abc import Mapping

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.servers.http.browsers import Visitor
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.rest.rows import rows_of
from understudy.store.log import Listed, Status

ROWS = 100  # at each check: less than a millisecond


class _Known(msgspec.Struct, frozen=True):
    owner: str
    digest: int


class ListChanges(msgspec.Struct, frozen=True):
    changed: tuple[Listed, ...] = ()
    deleted: Mapping[ConversationId, str] = {}  # each with its former owner


class Sweep:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[ConversationId, _Known] = {}
        self._met: set[ConversationId] = set()  # rows met in the current round
        self._archived = False
        self._cursor: str | None = None

    async def begin(self) -> None:
        """Read all rows once, so that every later change is news."""
        await self.look()
        while self._cursor is not None or self._archived:
            await asyncio.sleep(0)  # lets others be served
            await self.look()

    async def look(self) -> ListChanges:
        """Check the next rows. A row seen for the first time is not reported here: it is among the most recently active ones."""
        page = await self._engine.list(LOCAL, ROWS, self._cursor, archived=self._archived)
        changed = [listed for listed in page.rows if await self._note(listed)]
        self._cursor = page.next_cursor
        if self._cursor is not None:
            return ListChanges(tuple(changed))
        self._archived = not self._archived
        if self._archived:
            return ListChanges(tuple(changed))
        moved, deleted = await self._missing()
        return ListChanges((*changed, *moved), deleted)

    async def _note(self, listed: Listed) -> bool:
        name = listed.conversation_id
        digest = hash((listed, (await self._engine.standing_of(listed)).status, self._engine.viewers_of(name)))
        before, self._known[name] = self._known.get(name), _Known(listed.owner, digest)
        self._met.add(name)
        return before is not None and before.digest != digest

    async def _missing(self) -> tuple[list[Listed], dict[ConversationId, str]]:
        """Rows that a whole round did not meet: deleted, or moved past it."""
        moved: list[Listed] = []
        deleted: dict[ConversationId, str] = {}
        for name in self._known.keys() - self._met:
            listed = await self._engine.listed(name)
            if listed is None:
                deleted[name] = self._known.pop(name).owner
            elif await self._note(listed):
                moved.append(listed)
        self._met.clear()
        return moved, deleted


logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
ROWS_OF_A_CHANGE = 60  # checked each time, and more if all of them have changed; `Sweep` covers the rest
MOST_PAGES = 20
_encode = msgspec.json.Encoder().encode


class ChangesStream:
    """The changes for one client. A client that does not keep up is disconnected: it comes back and reads the list again."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.sink = StreamSink(asyncio.get_running_loop())

    def tell(self, owner: str, line: bytes) -> None:
        if self.sink.congested:
            self.sink.end()
        elif self.visitor.principal.caller.may("read", owner):
            self.sink.send(line, None)


class _Seen(msgspec.Struct, frozen=True):
    """The data that a row was made from."""

    listed: Listed
    status: Status
    viewers: tuple[str, ...]


class Changes:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._streams: set[ChangesStream] = set()
        self._seen: dict[ConversationId, _Seen] = {}
        self._sweep = Sweep(engine)
        self._looking: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()  # otherwise a second watcher would miss what has happened since the first was let in

    async def open(self, visitor: Visitor) -> ChangesStream:
        """All changes from here on."""
        async with self._opening:
            if not self._streams:
                self._sweep = Sweep(self._engine)
                await self._sweep.begin()
                self._seen = await self._look()
            stream = ChangesStream(visitor)
            self._streams.add(stream)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._run())
        return stream

    def leave(self, stream: ChangesStream) -> None:
        self._streams.discard(stream)
        stream.sink.close()
        if not self._streams and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    @property
    def streams(self) -> tuple[ChangesStream, ...]:
        return tuple(self._streams)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._tell_changes()
            except AgentError as error:  # the store may come back
                logger.warning("the list cannot be looked at: %s", error)
            except Exception:
                logger.exception("bug in looking for changes of the list")

    async def _tell_changes(self) -> None:
        before, self._seen = self._seen, await self._look()
        swept = await self._sweep.look()
        changed = [seen.listed for name, seen in self._seen.items() if before.get(name) != seen]
        changed += [listed for listed in swept.changed if listed.conversation_id not in self._seen]
        deleted = dict(swept.deleted)
        for name in before.keys() - self._seen.keys():  # other rows are more active now, or it is gone
            if (listed := await self._engine.listed(name)) is None:
                deleted[name] = before[name].listed.owner
            elif listed != before[name].listed:
                changed.append(listed)
        rows = await rows_of(self._engine, LOCAL, changed)
        for listed, row in zip(changed, rows, strict=True):
            self._tell(listed.owner, _encode(row))
        for name, owner in deleted.items():
            self._tell(owner, _encode({"id": name, "deleted": True}))

    def _tell(self, owner: str, line: bytes) -> None:
        for stream in tuple(self._streams):
            stream.tell(owner, line)

    async def _look(self) -> dict[ConversationId, _Seen]:
        """The most recently active rows: up to a fixed number, and further as long as rows have changed."""
        found: dict[ConversationId, _Seen] = {}
        for archived in (False, True):
            cursor: str | None = None
            for _ in range(MOST_PAGES):
                page = await self._engine.list(LOCAL, ROWS_OF_A_CHANGE, cursor, archived=archived)
                for listed in page.rows:
                    standing = await self._engine.standing_of(listed)
                    viewers = self._engine.viewers_of(listed.conversation_id)
                    found[listed.conversation_id] = _Seen(listed, standing.status, viewers)
                cursor = page.next_cursor
                known = any(self._is_known(listed) for listed in page.rows)
                if cursor is None or known or not self._seen:
                    break
        return found

    def _is_known(self, listed: Listed) -> bool:
        seen = self._seen.get(listed.conversation_id)
        return seen is not None and seen.listed == listed
