"""A viewer of one conversation on one connection: a cursor into the log, live once it has caught up.

What differs between a call that waits for its answer and a stream is what they do with an entry; that is left to the
subclasses.
"""

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.conversation import Conversation
from understudy.engine.text_so_far import OUTPUT, RAW, REASONING, TEXT, TextSoFar, finished_by
from understudy.errors import AgentError
from understudy.protocol.items import Reasoning
from understudy.protocol.records import Delta, ItemReceived, OutputDelta, ReasoningDelta, Record, TextDelta
from understudy.servers.sink import Sink

READ_AT_ONCE = 128  # records in one step of the event loop: others are served between two


class Reader:
    can_answer = False

    def __init__(self, conversation: Conversation, sink: Sink, cursor: int, *, hides_reasoning: bool = False) -> None:
        self.conversation = conversation
        self.cursor = cursor
        self._sink = sink
        self._hides_reasoning = hides_reasoning
        self._behind = False
        self._told = _Told()

    def attach(self) -> None:
        """Go live. The caller has read up to what is published."""
        self.conversation.tail.broadcast.followers.append(self)

    def detach(self) -> None:
        if self in self.conversation.tail.broadcast.followers:
            self.conversation.tail.broadcast.followers.remove(self)

    @property
    def attached(self) -> bool:
        return self in self.conversation.tail.broadcast.followers

    def note_told(self, delta: Delta) -> None:
        """The viewer has been given this of an unfinished item, otherwise than live."""
        self._told.add(delta)

    # -- called by the broadcast

    def show(self, live: LiveEntry) -> None:
        if live.entry.seq <= self.cursor:
            return  # the viewer has it from elsewhere: another process may be ahead of this one
        if self._behind or (self._sink.congested and self._falls_behind()):
            return
        self.pass_on(live)

    def show_delta(self, live: LiveDelta) -> None:
        if live.after < self.cursor or (self._hides_reasoning and type(live.delta) is ReasoningDelta):
            return
        if self._behind or (self._sink.congested and self._falls_behind()):
            return
        self._told.add(live.delta)
        self.deliver_delta(live)

    def pass_on(self, live: LiveEntry) -> None:
        """The next entry, live or read again."""
        self.cursor = live.entry.seq
        if self._told:
            self._told.finish(live)
        if not (self._hides_reasoning and is_reasoning(live.entry.record)):
            self.deliver(live)

    def fail(self, error: AgentError) -> None:
        self.detach()

    # -- for subclasses

    def deliver(self, live: LiveEntry) -> None:
        raise NotImplementedError

    def deliver_delta(self, live: LiveDelta) -> None:
        raise NotImplementedError

    # -- falling behind and catching up

    def _falls_behind(self) -> bool:
        self._behind = True
        self._sink.drained(self._catch_up)
        return True

    def _catch_up(self) -> None:
        """A page of what was missed; the next one in another step, once there is room for it."""
        tail = self.conversation.tail
        if not self.attached:
            return
        try:
            entries = self.conversation.read(self.cursor, READ_AT_ONCE)
        except AgentError as error:
            self.fail(error)
            return
        for entry in entries:
            self.pass_on(LiveEntry(entry))
            if not self.attached:
                return
        if entries and self.cursor < tail.broadcast.published:
            self._sink.drained(self._catch_up)
            return
        self._behind = False
        for delta in self._told.missing(tail.broadcast.text):
            self.show_delta(LiveDelta(delta, tail.state.turn or "", self.cursor))


def is_reasoning(record: Record) -> bool:
    return isinstance(record, ItemReceived) and isinstance(record.item, Reasoning)


class _Told:
    """How much of the unfinished items this viewer has been given, so that merged deltas repeat nothing."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._lengths)

    def add(self, delta: Delta) -> None:
        if type(delta) is TextDelta:  # nearly all of them
            self._lengths[TEXT] = self._lengths.get(TEXT, 0) + len(delta.text)
            return
        key, length = _measure(delta)
        self._lengths[key] = self._lengths.get(key, 0) + length

    def finish(self, live: LiveEntry) -> None:
        if self._lengths and (gone := finished_by(live.entry.record)):
            self._lengths = {key: length for key, length in self._lengths.items() if not key.startswith(gone)}

    def missing(self, said: TextSoFar) -> list[Delta]:
        found: list[Delta] = []
        for delta in said.deltas():
            key, length = _measure(delta)
            told = self._lengths.get(key, 0)
            if told < length:
                found.append(_after(delta, told))
        return found


def _measure(delta: Delta) -> tuple[str, int]:
    match delta:
        case TextDelta(text=text):
            return TEXT, len(text)
        case ReasoningDelta(text=text, raw=raw):
            return (RAW if raw else REASONING), len(text)
        case OutputDelta() as output:
            return f"{OUTPUT} {output.call_id} {output.stream}", len(output.chunk)


def _after(delta: Delta, told: int) -> Delta:
    match delta:
        case TextDelta(text=text):
            return TextDelta(text[told:])
        case ReasoningDelta(text=text, raw=raw):
            return ReasoningDelta(text[told:], raw)
        case OutputDelta() as output:
            return OutputDelta(output.call_id, output.stream, output.chunk[told:])
