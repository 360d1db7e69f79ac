"""`conversationStream`: every event so far, then live ones, from one cursor. Snapshot and live events meet at a sequence number.

Without `after` the shapes are the seed's: bare `{"msg": …}`. With `after` every event has its position.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.steps import EagerTasks
from understudy.engine.viewers.following import is_reasoning
from understudy.errors import AgentError, report_bug
from understudy.protocol.jsonrpc import RequestId, notification_line
from understudy.protocol.records import Entry, Opened, Question, TextDelta, TurnEnded, TurnStarted, UserMessage
from understudy.servers.mcp.asking import ask_peer, withdraw_closed
from understudy.servers.mcp.peer import Peer
from understudy.servers.sink import Sink
from understudy.servers.wire_events.event_codec import Encoded
from understudy.servers.wire_events.presentation import Presentation
from understudy.servers.wire_events.seed_events import encode_user_message

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

READ_BACK = 256  # records per read, in search of the beginning of a turn


class StreamViewer:
    def __init__(
        self,
        peer: Peer,
        sink: Sink,
        handle: Handle,
        request_id: RequestId,
        call: RequestId | None,
        presentation: Presentation,
        after: int | None,
    ) -> None:
        end = handle.facts.last_seq
        self.handle = handle
        self.request_id = request_id
        self.following = handle.follow(self, after=min(after or 0, end), outlet=sink, hides_reasoning=presentation.hides_reasoning)
        self._peer = peer
        self._sink = sink
        self._hides_reasoning = presentation.hides_reasoning
        self._call = request_id if call is None else call  # the request that made the conversation, which questions name
        self._codec = presentation.codec(handle)
        self._marked = after is not None
        self._past_the_end = after is not None and after > end  # the log never had that number: the viewer begins at its end
        self._framing = (type(self._codec), self._marked)
        self._needs_past = self._codec.needs_past and self.following.cursor > 0
        self._over = False
        self.when_over: Callable[[], None] | None = None  # called once, when the stream is over
        self._gathered: list[bytes] = []  # events of the snapshot while it is built

    @property
    def can_answer(self) -> bool:
        return self._peer.can_be_asked and not self._sink.closed

    @property
    def over(self) -> bool:
        """Cancelled, replaced by another stream, or deleted: nothing more may be sent for it."""
        return self._over

    async def gather(self) -> bool:
        """Read another page for the snapshot. True once it is sent and the stream is live, or if the stream has ended."""
        if self._needs_past:
            self._needs_past = False
            await self._read_past()
        page = await self.following.read_page()
        if self._over:
            return True
        for live in page:
            self._add(live)
        if page and not self.following.caught_up:
            return False
        self._send_snapshot()
        return True

    async def _read_past(self) -> None:
        """Read the earlier entries of the turn if the viewer begins in its middle."""
        before, past = self.following.cursor, list[Entry]()
        while before > 0 and not any(isinstance(entry.record, TurnStarted) for entry in past):
            after = max(0, before - READ_BACK)
            past[:0] = await self.handle.read(after, before - after)
            before = after
        for entry in past:
            self._codec.note(entry)

    def _add(self, live: LiveEntry) -> None:
        entry = live.entry
        self.following.cursor = entry.seq
        self._codec.note(entry)
        key = (*self._framing, "in a snapshot")  # shared by all who begin in this way
        wrapped = live.encoded.get(key)
        if wrapped is None:
            wrapped = live.encoded[key] = tuple(self._wrapped(live))
        if not (self._hides_reasoning and is_reasoning(entry.record)):
            self._gathered += wrapped

    def _wrapped(self, live: LiveEntry) -> Iterator[bytes]:
        entry = live.entry
        if isinstance(entry.record, TurnEnded) and entry.record.unfinished:  # it was shown live, and no item holds it
            cut = LiveDelta(TextDelta(entry.record.unfinished), entry.turn, entry.parent)
            yield self._wrap(self._codec.delta(cut), cut.after, cut.turn)
        for event in self._events(live):
            yield self._wrap(event, entry.seq, entry.turn)

    def _send_snapshot(self) -> None:
        """Send the snapshot with the text of unfinished items. From here on the viewer is live and gets open questions."""
        for live in self.following.take_unfinished():
            self._gathered.append(self._wrap(self._codec.delta(live), live.after, live.turn))
        meta: dict[str, Any] = {"conversationId": self.handle.id}
        if self._past_the_end:
            meta["seq"] = self.following.cursor
        params = b'{"_meta":%b,"initial_state":{"events":[%b]}}' % (_encode(meta), b",".join(self._gathered))
        self._gathered.clear()
        self._sink.send(notification_line("notifications/initial_state", params), self.request_id)
        self.following.go_live()
        withdraw_closed(self._peer, self.handle)
        self.following.put_open_questions()

    def stop(self) -> None:
        self._stop()
        self._tell_over()

    def _stop(self) -> None:
        self.following.stop()
        self._over = True
        self._gathered.clear()

    def _tell_over(self) -> None:
        told, self.when_over = self.when_over, None
        if told is not None:
            told()

    def disconnect(self, reason: str) -> None:
        """Nothing more comes, and the client is told why."""
        if self._over:
            return
        self._stop()
        meta = {"conversationId": self.handle.id, "requestId": self.request_id}
        params: dict[str, Any] = {"_meta": meta, "reason": reason}
        self._sink.send(notification_line("notifications/stream_disconnected", params), self.request_id)
        self._tell_over()

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        if lines := self._lines(live):
            self._sink.send(lines, self.request_id)

    def _lines(self, live: LiveEntry) -> bytes:
        """The entry's events, a line each."""
        entry = live.entry
        lines = live.encoded.get(self._framing)
        if lines is None:
            framed = [self._frame(event, entry.seq, entry.turn) for event in self._events(live)]
            lines = live.encoded[self._framing] = b"".join(framed)
        return lines

    def delta(self, live: LiveDelta) -> None:
        line = live.encoded.get(self._framing)  # shared by all who watch in this way
        if line is None:
            line = live.encoded[self._framing] = self._frame(self._codec.delta(live), live.after, live.turn)
        self._sink.send(line, self.request_id)

    def question(self, question: Question, turn: str) -> None:
        if self.following.can_answer:
            ask_peer(self._peer, self._sink, self.request_id, self.handle, question, turn, named_call=self._call)

    def question_closed(self, call_id: str, turn: str) -> None:
        self._peer.withdraw_question(self.handle.id, turn, call_id)

    def ended(self, ended: TurnEnded) -> None:
        """A stream continues after every turn."""

    def failed(self, error: AgentError) -> None:
        self.disconnect(str(error))

    # -- wire format

    def _events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        record = live.entry.record
        if isinstance(record, UserMessage):
            return (encode_user_message(record),) if self._marked else ()
        if isinstance(record, Opened) and not self._marked:
            return ()  # the seed never reported this here
        return self._codec.events(live)

    def _frame(self, event: Encoded, seq: int, turn: str) -> bytes:
        method = event.type if self._codec.plain_method else b"codex/event"
        return b'{"jsonrpc":"2.0","method":"' + method + b'","params":' + self._wrap(event, seq, turn) + b"}\n"

    def _wrap(self, event: Encoded, seq: int, turn: str) -> bytes:
        plain = self._codec.plain_method
        if not self._marked and plain:
            return b'{"msg":' + event.msg + b"}"
        meta: dict[str, Any] = {} if plain else {"threadId": self.handle.id}
        if self._marked:
            meta |= {"conversationId": self.handle.id, "seq": seq}
            message = self.handle.message_of_turn(turn)
            if message is not None:
                meta["messageId"] = message
        number = b"" if plain else b'"id":' + _encode("" if turn == "0" else turn) + b","
        return b'{"_meta":' + _encode(meta) + b"," + number + b'"msg":' + event.msg + b"}"


class Snapshots:
    """Builds the snapshots of one connection one after the other, one page per step, each once the previous ones are taken.

    A client that asks for hundreds and reads none costs no more than one that asks for one.
    """

    def __init__(self, sink: Sink, tasks: EagerTasks) -> None:
        self._sink = sink
        self._tasks = tasks
        self._waiting: deque[StreamViewer] = deque()
        self._stepping = False

    def add(self, stream: StreamViewer) -> None:
        self._waiting.append(stream)
        if not self._stepping and not self._sink.congested:
            self._step()  # at once: most are a page long
        else:
            self._step_later()

    def _step_later(self) -> None:
        if self._waiting and not self._stepping:
            self._stepping = True
            self._sink.drained(self._step)

    def _step(self) -> None:
        self._tasks.run(self._gather_page())

    async def _gather_page(self) -> None:
        while self._waiting and self._waiting[0].over:
            self._waiting.popleft()
        if self._waiting:
            self._stepping = True
            stream = self._waiting[0]
            if await _gathered(stream):
                self._waiting.remove(stream)
        self._stepping = False
        self._step_later()


async def _gathered(stream: StreamViewer) -> bool:
    try:
        return await stream.gather()
    except Exception as error:  # the request has been answered already, so this is the way to report it
        stream.disconnect(str(error) if isinstance(error, AgentError) else report_bug(logger, error, "in a snapshot"))
        return True
