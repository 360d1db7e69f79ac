"""`conversationStream`: every event so far, then live ones, from one cursor. Snapshot and live meet at a sequence number.

Without `after` the shapes are the seed's: bare `{"msg": …}`. With it every event says where it stands.
"""

import logging
from collections import deque
from typing import Any

import msgspec

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.conversation import Conversation
from understudy.errors import AgentError, report_bug
from understudy.protocol.jsonrpc import RequestId, notification_line
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    Entry,
    Opened,
    PatchApprovalAsked,
    ReasoningDelta,
    TextDelta,
    ToolAnswered,
    TurnEnded,
    UserMessage,
)
from understudy.servers.codec import Encoded, encode_user_message
from understudy.servers.mcp.asking import ask_peer, withdraw_closed
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.presentation import Presentation
from understudy.servers.mcp.reader import READ_AT_ONCE, Reader, is_reasoning
from understudy.servers.sink import Sink

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class StreamReader(Reader):
    def __init__(
        self,
        peer: Peer,
        sink: Sink,
        conversation: Conversation,
        request_id: RequestId,
        call: RequestId | None,
        presentation: Presentation,
        after: int | None,
    ) -> None:
        end = conversation.state.last_seq
        super().__init__(conversation, sink, min(after or 0, end), hides_reasoning=presentation.hides_reasoning)
        self.request_id = request_id
        self._peer = peer
        self._call = request_id if call is None else call  # the request that made the conversation, which questions name
        self._codec = presentation.codec(conversation)
        self._marked = after is not None
        self._strayed = after is not None and after > end  # the log never had that number: the viewer begins at its end
        self._framing = (type(self._codec), self._marked)
        self._over = False
        self._gathered: list[bytes] = []  # events of the snapshot, while it is put together

    @property
    def can_answer(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._peer.can_be_asked and not self._sink.closed

    @property
    def over(self) -> bool:
        """Cancelled, taken over by another, or deleted: nothing more may be sent for it."""
        return self._over

    def gather(self) -> bool:
        """Read another page for the snapshot. True once it is sent, and the stream is live."""
        entries = self.conversation.read(self.cursor, READ_AT_ONCE)
        for entry in entries:
            self._add(entry)
        if entries and self.cursor < self.conversation.tail.broadcast.published:
            return False
        self._send_snapshot()
        return True

    def _add(self, entry: Entry) -> None:
        if isinstance(entry.record, TurnEnded) and entry.record.unfinished:  # it was shown live, and no item holds it
            cut = LiveDelta(TextDelta(entry.record.unfinished), entry.turn, entry.parent)
            self._gathered.append(self._wrap(self._codec.delta(cut), cut.after, cut.turn))
        self.cursor = entry.seq
        if not (self._hides_reasoning and is_reasoning(entry.record)):
            self._gathered += [self._wrap(event, entry.seq, entry.turn) for event in self._events(LiveEntry(entry))]

    def _send_snapshot(self) -> None:
        """With what has been said of items that are not finished. From here on the viewer is live, and asked what is open."""
        tail = self.conversation.tail
        for delta in tail.broadcast.text.deltas() if tail.broadcast.published >= self.cursor else ():
            if self._hides_reasoning and isinstance(delta, ReasoningDelta):
                continue
            live = LiveDelta(delta, tail.state.turn or "", tail.broadcast.published)
            self.note_told(delta)
            self._gathered.append(self._wrap(self._codec.delta(live), live.after, live.turn))
        meta: dict[str, Any] = {"conversationId": self.conversation.id}
        if self._strayed:
            meta["seq"] = self.cursor
        params = b'{"_meta":%b,"initial_state":{"events":[%b]}}' % (_encode(meta), b",".join(self._gathered))
        self._gathered.clear()
        self._sink.send(notification_line("notifications/initial_state", params), self.request_id)
        self.attach()
        withdraw_closed(self._peer, self.conversation)
        for question in tuple(self.conversation.state.questions.values()):
            self._ask(question, self.conversation.state.turn or "")

    def detach(self) -> None:
        super().detach()
        self._over = True
        self._gathered.clear()

    def disconnect(self, reason: str) -> None:
        """Nothing more comes, and the client is told why."""
        if self._over:
            return
        self.detach()
        meta = {"conversationId": self.conversation.id, "requestId": self.request_id}
        params: dict[str, Any] = {"_meta": meta, "reason": reason}
        self._sink.send(notification_line("notifications/stream_disconnected", params), self.request_id)

    def fail(self, error: AgentError) -> None:
        self.disconnect(str(error))

    def deliver(self, live: LiveEntry) -> None:
        entry = live.entry
        lines = live.encoded.get(self._framing)
        if lines is None:
            framed = [self._frame(event, entry.seq, entry.turn) for event in self._events(live)]
            lines = live.encoded[self._framing] = b"".join(framed)
        if lines:
            self._sink.send(lines, self.request_id)
        match entry.record:
            case CommandApprovalAsked() | PatchApprovalAsked():
                self._ask(entry.record, entry.turn)
            case ApprovalDecided(call_id=call_id, effective=True):
                self._peer.withdraw_question(self.conversation.id, entry.turn, call_id)
            case ToolAnswered(output=output):
                self._peer.withdraw_question(self.conversation.id, entry.turn, output.call_id)
            case _:
                pass

    def deliver_delta(self, live: LiveDelta) -> None:
        line = live.encoded.get(self._framing)  # the same for all who watch in this way
        if line is None:
            line = live.encoded[self._framing] = self._frame(self._codec.delta(live), live.after, live.turn)
        self._sink.send(line, self.request_id)

    def _events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        record = live.entry.record
        if isinstance(record, UserMessage):
            return (encode_user_message(record),) if self._marked else ()
        if isinstance(record, Opened) and not self._marked:
            return ()  # the seed never told of it here
        return self._codec.events(live)

    def _frame(self, event: Encoded, seq: int, turn: str) -> bytes:
        method = event.type if self._codec.plain_method else b"codex/event"
        return b'{"jsonrpc":"2.0","method":"' + method + b'","params":' + self._wrap(event, seq, turn) + b"}\n"

    def _wrap(self, event: Encoded, seq: int, turn: str) -> bytes:
        plain = self._codec.plain_method
        if not self._marked and plain:
            return b'{"msg":' + event.msg + b"}"
        meta: dict[str, Any] = {} if plain else {"threadId": self.conversation.id}
        if self._marked:
            meta |= {"conversationId": self.conversation.id, "seq": seq}
            message = self.conversation.state.turn_messages.get(turn)
            if message is not None:
                meta["messageId"] = message
        number = b"" if plain else b'"id":' + _encode("" if turn == "0" else turn) + b","
        return b'{"_meta":' + _encode(meta) + b"," + number + b'"msg":' + event.msg + b"}"

    def _ask(self, question: CommandApprovalAsked | PatchApprovalAsked, turn: str) -> None:
        if self.can_answer:
            ask_peer(self._peer, self._sink, self.request_id, self.conversation, question, turn, named_call=self._call)


class Snapshots:
    """Makes the snapshots of one connection: one after the other, a page in a step, each once the ones before it are taken.

    A client that asks for hundreds and reads none of them costs no more than one that asks for one.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._waiting: deque[StreamReader] = deque()
        self._stepping = False

    def add(self, stream: StreamReader) -> None:
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
        self._stepping = False
        while self._waiting and self._waiting[0].over:
            self._waiting.popleft()
        if self._waiting and _gathered(self._waiting[0]):
            self._waiting.popleft()
        self._step_later()


def _gathered(stream: StreamReader) -> bool:
    try:
        return stream.gather()
    except Exception as error:  # it has been answered already: this is the way to tell
        stream.disconnect(str(error) if isinstance(error, AgentError) else report_bug(logger, error, "in a snapshot"))
        return True
