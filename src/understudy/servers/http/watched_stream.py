"""A `conversationStream` over HTTP: it counts what the client was shown, so that it is watched again from there after a break."""

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.handle import Handle
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.records import Question
from understudy.servers.http.event_ids import ALL, StreamName, StreamPosition, write_stream_place
from understudy.servers.http.standalone import StandaloneSink
from understudy.servers.mcp.asking import withdraw_closed
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.question_names import digest_of
from understudy.servers.mcp.stream_viewer import StreamViewer
from understudy.servers.presentation import Presentation


class WatchedStream(StreamViewer):
    """Its place (`place`) stands in the id of every event of its session, whichever conversation the event is of."""

    def __init__(
        self,
        peer: Peer,
        sink: StandaloneSink,
        handle: Handle,
        request_id: RequestId,
        call: RequestId | None,
        presentation: Presentation,
        after: int | None,
        seen: StreamPosition | None = None,
    ) -> None:
        """`seen`: what the client had been shown before it came back."""
        super().__init__(peer, sink, handle, request_id, call, presentation, after)
        self._standalone = sink
        self._name = StreamName(request_id, handle.id, call, after).encode()
        self._seen = seen  # while it is caught up
        self._snapshot_begun = self._snapshot_sent = seen is not None
        self._record, self._messages = (0, 0) if seen is None else (seen.record, seen.messages)  # how many of that record
        self._asked: dict[str, str] = {}  # digests of questions that were put to the client and are open, by call id
        self._skipping = False
        if seen is not None:
            cursor = self.following.cursor = max(0, seen.record - 1)  # of the last record the client may have only a part
            self._needs_past = self._codec.needs_past and cursor > 0

    def place(self) -> bytes:
        """Where it stands, for the id of an event."""
        if not self._snapshot_sent:
            return self._name.encode()
        given, asked = self.following.given_marks, frozenset(self._asked.values())
        if self._seen is not None:
            given = self._seen.given if self._record <= self._seen.record else given
            asked |= self._seen.asked
        return write_stream_place(self._name, StreamPosition(self._record, self._messages, 0, given, asked))

    @property
    def snapshot_sent(self) -> bool:
        return self._snapshot_sent

    @property
    def skips(self) -> bool:
        """What is about to be sent has been shown to the client already."""
        return self._skipping

    async def gather(self) -> bool:
        if not self._snapshot_begun:
            self._snapshot_begun = True
            self._standalone.prime()
        return await super().gather()

    async def resume(self) -> None:
        """Show what came after what the client had, and go on."""
        seen = self._seen or StreamPosition()
        self._peer.forget_asked(self.handle.id, self._sink)
        if self._needs_past:
            self._needs_past = False
            await self._read_past()
        await self.following.resume("", leads=False, shown_to=seen.record, given=seen.given)
        if not self.over:
            withdraw_closed(self._peer, self.handle)
            self.following.put_open_questions()
        self._seen = None

    def _send_snapshot(self) -> None:
        self._record, self._messages, self._snapshot_sent = self.following.cursor, ALL, True
        self._standalone.sender = self
        super()._send_snapshot()
        self._standalone.sender = None

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        self._record, self._messages = live.entry.seq, 0
        seen = self._seen
        shown = 0 if seen is None or seen.record != self._record else seen.messages
        self._standalone.sender = self
        for line in self._lines(live).splitlines():
            self._messages += 1
            if self._messages > shown:
                self._sink.send(line, self.request_id)
        self._standalone.sender = None

    def delta(self, live: LiveDelta) -> None:
        self._standalone.sender = self
        super().delta(live)
        self._standalone.sender = None

    def question(self, question: Question, turn: str) -> None:
        call_id, digest = question.call_id, digest_of(question)[:4].hex()
        before = self._peer.asked.get((self.handle.id, turn, call_id))
        if not self.following.can_answer or (before is not None and before.question == question):
            super().question(question, turn)
            return
        if self.handle.open_question(call_id) == question:
            self._asked[call_id] = digest
        self._skipping = self._seen is not None and digest in self._seen.asked
        self._standalone.sender = self
        super().question(question, turn)
        self._standalone.sender, self._skipping = None, False

    def question_closed(self, call_id: str, turn: str) -> None:
        self._asked.pop(call_id, None)
        super().question_closed(call_id, turn)
