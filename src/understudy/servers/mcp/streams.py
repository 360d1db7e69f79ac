"""`conversationStream`: every event so far, then live ones, from one cursor. Snapshot and live meet at a sequence number.

Without `after` the shapes are the seed's: bare `{"msg": …}`. With it every event says where it stands.
"""

from typing import Any

import msgspec

from understudy.engine.conversation import Conversation
from understudy.engine.feed import LiveDelta, Shown
from understudy.errors import AgentError
from understudy.protocol.jsonrpc import RequestId, notification_line
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    Opened,
    PatchApprovalAsked,
    TextDelta,
    ToolAnswered,
    TurnEnded,
    UserMessage,
)
from understudy.servers.codec import Codec, Encoded, encode_user_message
from understudy.servers.mcp.asking import ask_client, withdraw_closed
from understudy.servers.mcp.client import Client
from understudy.servers.mcp.reader import Reader

_encode = msgspec.json.Encoder().encode


class StreamReader(Reader):
    def __init__(
        self,
        client: Client,
        conversation: Conversation,
        request_id: RequestId,
        call: RequestId | None,
        codec: Codec,
        after: int | None,
    ) -> None:
        super().__init__(conversation, client.outbox, after or 0)
        self.request_id = request_id
        self._client = client
        self._call = request_id if call is None else call  # the request that made the conversation, which questions name
        self._codec = codec
        self._marked = after is not None
        self._framing = (type(codec), self._marked)

    @property
    def can_answer(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._client.can_be_asked and not self._client.outbox.closed

    def start(self) -> None:
        """Send the snapshot, go live, and ask what is still open."""
        feed = self.conversation.feed
        events: list[bytes] = []
        for entry in self.conversation.read(self.cursor):
            if isinstance(entry.record, TurnEnded) and entry.record.unfinished:  # it was shown live, and no item holds it
                cut = LiveDelta(TextDelta(entry.record.unfinished), entry.turn, entry.parent)
                events.append(self._wrap(self._codec.delta(cut), cut.after, cut.turn))
            self.cursor = entry.seq
            events += [self._wrap(event, entry.seq, entry.turn) for event in self._events(Shown(entry))]
        for delta in feed.said.deltas() if feed.published >= self.cursor else ():
            live = LiveDelta(delta, feed.state.turn or "", feed.published)
            self.note_told(delta)
            events.append(self._wrap(self._codec.delta(live), live.after, live.turn))
        meta = _encode({"conversationId": self.conversation.id})
        params = b'{"_meta":%b,"initial_state":{"events":[%b]}}' % (meta, b",".join(events))
        self._outbox.send(notification_line("notifications/initial_state", params))
        self.attach()
        withdraw_closed(self._client, self.conversation)
        for question in tuple(self.conversation.state.questions.values()):
            self._ask(question, self.conversation.state.turn or "")

    def disconnect(self, reason: str) -> None:
        """Nothing more comes, and the client is told why."""
        if not self.attached:
            return
        self.detach()
        meta = {"conversationId": self.conversation.id, "requestId": self.request_id}
        params: dict[str, Any] = {"_meta": meta, "reason": reason}
        self._outbox.send(notification_line("notifications/stream_disconnected", params))

    def fail(self, error: AgentError) -> None:
        self.disconnect(str(error))

    def deliver(self, shown: Shown) -> None:
        entry = shown.entry
        lines = shown.encoded.get(self._framing)
        if lines is None:
            framed = [self._frame(event, entry.seq, entry.turn) for event in self._events(shown)]
            lines = shown.encoded[self._framing] = b"".join(framed)
        if lines:
            self._outbox.send(lines)
        match entry.record:
            case CommandApprovalAsked() | PatchApprovalAsked():
                self._ask(entry.record, entry.turn)
            case ApprovalDecided(call_id=call_id, effective=True):
                self._client.withdraw_question(self.conversation.id, entry.turn, call_id)
            case ToolAnswered(output=output):
                self._client.withdraw_question(self.conversation.id, entry.turn, output.call_id)
            case _:
                pass

    def deliver_delta(self, live: LiveDelta) -> None:
        line = live.encoded.get(self._framing)  # the same for all who watch in this way
        if line is None:
            line = live.encoded[self._framing] = self._frame(self._codec.delta(live), live.after, live.turn)
        self._outbox.send(line)

    def _events(self, shown: Shown) -> tuple[Encoded, ...]:
        record = shown.entry.record
        if isinstance(record, UserMessage):
            return (encode_user_message(record),) if self._marked else ()
        if isinstance(record, Opened) and not self._marked:
            return ()  # the seed never told of it here
        return self._codec.events(shown)

    def _frame(self, event: Encoded, seq: int, turn: str) -> bytes:
        return b'{"jsonrpc":"2.0","method":"' + event.type + b'","params":' + self._wrap(event, seq, turn) + b"}\n"

    def _wrap(self, event: Encoded, seq: int, turn: str) -> bytes:
        if not self._marked:
            return b'{"msg":' + event.msg + b"}"
        meta: dict[str, Any] = {"conversationId": self.conversation.id, "seq": seq}
        message = self.conversation.state.turn_messages.get(turn)
        if message is not None:
            meta["messageId"] = message
        return b'{"_meta":' + _encode(meta) + b',"msg":' + event.msg + b"}"

    def _ask(self, question: CommandApprovalAsked | PatchApprovalAsked, turn: str) -> None:
        if self.can_answer:
            ask_client(self._client, self.conversation, question, self._call, turn)
