"""`…/events` as a stream: everything after a position in the log and then live events, from one cursor.

An event's id is `RECORD.NUMBER` with the lengths of unfinished texts given so far. It holds the stream's whole position, so that
any process can resume it from the log.

Watchers are told who else watches: soon after somebody has come or left, and then not again for a moment. When a server restarts,
thousands of streams return; telling each of them of each other would take all memory.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.steps import PAGE_RECORDS
from understudy.errors import AgentError
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Question, TurnEnded, TurnStarted
from understudy.servers.http.stream_sink import StreamSink

_FORM = re.compile(r"(\d{1,15})(?:\.(\d{1,6})(?:\.([a-z0-9-]{1,4000}))?)?", re.ASCII)
_GIVEN = re.compile(r"([trw]|o[0-9a-f]{8})-(\d{1,15})", re.ASCII)


class EventPosition(msgspec.Struct, frozen=True):
    record: int
    events: int | None = None  # how many events of that record; None: all
    given: Mapping[str, int] = {}


def write_position(record: int, events: int, given: Mapping[str, int]) -> bytes:
    text = f"{record}.{events}"
    return (text + "." + "--".join([f"{mark}-{length}" for mark, length in given.items()]) if given else text).encode()


def read_position(text: str) -> EventPosition | None:
    """None if the id is not ours."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    given: dict[str, int] = {}
    for part in (found[3] or "").split("--") if found[3] else ():
        mark = _GIVEN.fullmatch(part)
        if mark is None:
            return None
        given[mark[1]] = int(mark[2])
    return EventPosition(int(found[1]), None if found[2] is None else int(found[2]), given)


READ_BACK = PAGE_RECORDS  # records per read, in search of the beginning of a turn
MOST_READ_BACK = 1024


class StreamCodec(Protocol):
    """Turns entries and deltas into lines of JSON for one viewer."""

    def note(self, entry: Entry) -> None: ...

    def note_given(self, turn: str, given: Mapping[str, int]) -> None:
        """The viewer already has so much of unfinished texts."""
        ...

    def lines(self, live: LiveEntry) -> tuple[bytes, ...]: ...

    def delta(self, live: LiveDelta) -> bytes:
        """Empty if the delta is not shown."""
        ...

    def aside(self, line: bytes) -> bytes:
        """A line without a record: who watches. Empty if it is not shown."""
        ...

    def failed(self, reason: str) -> bytes:
        """Nothing more comes."""
        ...


Codec = TypeVar("Codec", bound=StreamCodec)


async def codec_at(handle: Handle, after: int, make: Callable[[Handle], Codec]) -> Codec:
    """A codec that knows the earlier entries of the turn in whose middle it begins, unless they are too far back."""
    codec = make(handle)
    past: list[LiveEntry] = []
    before = after
    while before > 0 and len(past) < MOST_READ_BACK and not any(isinstance(live.entry.record, TurnStarted) for live in past):
        begin = (before - 1) - (before - 1) % READ_BACK
        past[:0] = await handle.read_shared(begin, before)
        before = begin
    for live in past:
        codec.note(live.entry)
    return codec


class EventStream:
    """A viewer whose events are sent over one connection."""

    def __init__(
        self, handle: Handle, sink: StreamSink, codec: StreamCodec, after: int, *, answers: bool, hides_reasoning: bool
    ) -> None:
        self.handle = handle
        self.sink = sink
        self.can_answer = answers
        self._codec = codec
        self._record = after
        self._events = 0  # events sent for that record
        self._id = b""
        self.following = handle.follow(self, after=after, outlet=sink, hides_reasoning=hides_reasoning)
        sink.mark = lambda: self._id or None

    def begin(self, position: EventPosition, rest: Sequence[bytes]) -> None:
        """`rest`: events that the client lacks of the record at which the stream begins."""
        self._events = position.events or 0
        for line in rest:
            self._events += 1
            self._send(line)
        self._codec.note_given(self.handle.facts.turn or "", position.given)
        self.following.rejoin(position.given)

    def stop(self) -> None:
        self.following.stop()

    def tell(self, line: bytes) -> None:
        """Send a line without a record: it has no id and is not repeated."""
        self._id = b""
        if told := self._codec.aside(line):
            self.sink.send(told, None)

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        self._record, self._events = live.entry.seq, 0
        for line in self._codec.lines(live):
            self._events += 1
            self._send(line)

    def delta(self, live: LiveDelta) -> None:
        if line := self._codec.delta(live):
            self._send(line)

    def question(self, question: Question, turn: str) -> None:
        """The question was already sent as an event."""

    def question_closed(self, call_id: str, turn: str) -> None:
        """So was its answer."""

    def ended(self, ended: TurnEnded) -> None:
        """A stream continues after every turn."""

    def failed(self, error: AgentError) -> None:
        self._id = b""
        self.sink.send(self._codec.failed(str(error)), None)
        self.sink.end()

    def _send(self, line: bytes) -> None:
        given = self.following.given_marks
        self._id = write_position(self._record, self._events, given) if given else b"%d.%d" % (self._record, self._events)
        self.sink.send_event(line, self._id)


REST_SECONDS = 0.1  # between two rounds in one conversation, and longer for many:
SECONDS_FOR_EACH = 0.001
AT_ONCE = 16  # streams that are told for one share of a step
_encode = msgspec.json.Encoder().encode


class _Round(msgspec.Struct):
    """A round in one conversation."""

    streams: dict[EventStream, None]
    changed: bool = False  # since the last round
    under_way: bool = False


class WhoWatches:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._rounds: dict[ConversationId, _Round] = {}
        self._ended = False

    def come(self, stream: EventStream) -> None:
        self._rounds.setdefault(stream.handle.id, _Round({})).streams[stream] = None
        self._tell_soon(stream.handle.id)

    def leave(self, stream: EventStream) -> None:
        one = self._rounds.get(stream.handle.id)
        if one is not None and one.streams.pop(stream, stream) is None:
            self._tell_soon(stream.handle.id)

    def end(self) -> None:
        """Nobody is told anything more."""
        self._ended = True
        self._rounds.clear()

    def _tell_soon(self, conversation_id: ConversationId) -> None:
        one = self._rounds.get(conversation_id)
        if one is None or self._ended:
            return
        one.changed = True
        if not one.under_way:
            one.under_way = True
            self._loop.call_soon(self._begin_round, conversation_id)

    def _begin_round(self, conversation_id: ConversationId) -> None:
        one = self._rounds.get(conversation_id)
        if one is None:
            return
        if not one.streams:
            del self._rounds[conversation_id]
        elif one.changed:
            one.changed = False
            self._engine.tasks.run(self._tell_all(conversation_id, one))
        else:
            one.under_way = False

    async def _tell_all(self, conversation_id: ConversationId, one: _Round) -> None:
        line = _encode({"msg": {"type": "viewers", "viewers": self._engine.viewers_of(conversation_id)}})
        for number, stream in enumerate(tuple(one.streams)):
            if number % AT_ONCE == 0:
                await self._engine.pace.take(1)
            if stream in one.streams and not stream.sink.congested:
                stream.tell(line)
        if not self._ended:
            self._loop.call_later(REST_SECONDS + SECONDS_FOR_EACH * len(one.streams), self._begin_round, conversation_id)
