"""`…/events` as a stream: everything after a place in the log, then what happens, from one cursor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.handle import Handle
from understudy.engine.pace import PAGE_RECORDS
from understudy.errors import AgentError
from understudy.protocol.records import Entry, Question, TurnEnded, TurnStarted
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.rest.positions import EventPosition, write_position

READ_BACK = PAGE_RECORDS  # at once, in search of the beginning of a turn
MOST_READ_BACK = 1024


class StreamCodec(Protocol):
    """What one viewer is told of entries and deltas, as lines of JSON."""

    def note(self, entry: Entry) -> None: ...

    def note_given(self, turn: str, given: Mapping[str, int]) -> None:
        """So much of unfinished texts the viewer has been given before."""
        ...

    def lines(self, live: LiveEntry) -> tuple[bytes, ...]: ...

    def delta(self, live: LiveDelta) -> bytes:
        """Empty where nothing is told of it."""
        ...

    def aside(self, line: bytes) -> bytes:
        """Of what is no record: who watches. Empty where it is not told."""
        ...

    def failed(self, reason: str) -> bytes:
        """Nothing more comes."""
        ...


Codec = TypeVar("Codec", bound=StreamCodec)


async def codec_at(handle: Handle, after: int, make: Callable[[Handle], Codec]) -> Codec:
    """One that knows what came before in the turn in whose middle it begins, unless that is too long ago."""
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
    """A viewer whose events one connection takes."""

    def __init__(
        self, handle: Handle, sink: StreamSink, codec: StreamCodec, after: int, *, answers: bool, hides_reasoning: bool
    ) -> None:
        self.handle = handle
        self.sink = sink
        self.can_answer = answers
        self._codec = codec
        self._record = after
        self._events = 0  # of that record
        self._id = b""
        self.following = handle.follow(self, after=after, outlet=sink, hides_reasoning=hides_reasoning)
        sink.mark = lambda: self._id or None

    def begin(self, position: EventPosition, rest: Sequence[bytes]) -> None:
        """`rest`: events of the record at which it begins that the client does not have."""
        self._events = position.events or 0
        for line in rest:
            self._events += 1
            self._send(line)
        self._codec.note_given(self.handle.facts.turn or "", position.given)
        self.following.rejoin(position.given)

    def stop(self) -> None:
        self.following.stop()

    def tell(self, line: bytes) -> None:
        """Something that is no record: it has no id, and is not told again."""
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
        """It is an event like the others."""

    def question_closed(self, call_id: str, turn: str) -> None:
        """So is its answer."""

    def ended(self, ended: TurnEnded) -> None:
        """A stream goes on after every turn."""

    def failed(self, error: AgentError) -> None:
        self._id = b""
        self.sink.send(self._codec.failed(str(error)), None)
        self.sink.end()

    def _send(self, line: bytes) -> None:
        self._id = write_position(self._record, self._events, self.following.given_marks)
        self.sink.send_event(line, self._id)
