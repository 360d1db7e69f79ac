"""The resumable streams of a session: of a call, of a conversation, and for messages that belong to no request."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.errors import AgentError, ConversationBusy, NotAllowed
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.ops import Resume
from understudy.protocol.records import Question
from understudy.servers.http.stream_sink import SKIP, Skip, StreamSink
from understudy.servers.mcp.asking import CLIENT_GONE, digest_of, withdraw_closed
from understudy.servers.mcp.call import Call, CallViewer
from understudy.servers.mcp.peer import FIRST_WITH_FORMS, Peer
from understudy.servers.mcp.stream_viewer import StreamViewer
from understudy.servers.mcp_http.ids import (
    ALL,
    BEGINNING,
    MOST_STREAMS,
    CallStream,
    StreamName,
    StreamPosition,
    write_event_id,
    write_stream_place,
)
from understudy.servers.wire_events.presentation import Presentation

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress


RETRY_MS = 2000  # official clients try to reconnect twice, after this time: a restarted server must be up by then


class Watched(Protocol):
    """A conversation that the session watches."""

    def place(self) -> bytes: ...

    @property
    def skips(self) -> bool: ...


class StandaloneSink:
    """A `Sink` that lives as long as the session. Its event ids hold the position of each conversation that the session watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, streams: Callable[[], Iterable[Watched]]) -> None:
        """`streams`: what the session watches now."""
        self._loop = loop
        self._streams = streams
        self.sender: Watched | None = None  # whose message is being sent
        self.primes = False  # the client understands an event without data
        self._stream: StreamSink | None = None
        self._to_call: list[Callable[[], None]] = []  # once there is a connection
        self._ended = False

    @property
    def attached(self) -> bool:
        return self._stream is not None and not self._stream.over

    @property
    def closed(self) -> bool:
        """Whether nobody can be asked anything here at the moment."""
        return self._ended or not self.attached

    @property
    def congested(self) -> bool:
        return self._stream is None or self._stream.over or self._stream.congested

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        if self._stream is not None:
            self._stream.send(message, related_to)

    def answer(self, message: bytes, related_to: RequestId) -> None:
        self.send(message, related_to)

    def drained(self, callback: Callable[[], None]) -> None:
        if self._ended:
            return
        if self._stream is not None and not self._stream.over:
            self._stream.drained(callback)
        else:
            self._to_call.append(callback)

    def attach(self) -> StreamSink:
        """A new connection. It replaces the previous one: a client has only one, and may not have noticed that it broke."""
        if self._stream is not None:
            self._stream.end()
        stream = self._stream = StreamSink(self._loop)
        stream.begin()
        stream.mark = self._mark
        self.prime()
        to_call, self._to_call = self._to_call, []
        for callback in to_call:
            stream.drained(callback)
        return stream

    def prime(self) -> None:
        """Tell the client where it can resume, before there is anything to show."""
        event_id = self._event_id() if self.primes else None
        if event_id is not None and self._stream is not None:
            self._stream.prime(event_id, RETRY_MS)

    def _mark(self) -> bytes | Skip | None:
        sender = self.sender
        if sender is None:
            return None
        return SKIP if sender.skips else self._event_id()

    def _event_id(self) -> bytes | None:
        places = [stream.place() for stream in self._streams()]
        if not 0 < len(places) <= MOST_STREAMS:
            return None  # an id in every event would be longer than the events
        between = BEGINNING.encode()
        return between + between.join(places)

    def leave(self, stream: StreamSink) -> None:
        """That connection is gone."""
        if self._stream is stream:
            self._to_call += stream.give_back()
            self._stream = None

    def detach(self) -> None:
        if self._stream is not None:
            self._stream.end()

    def close(self) -> None:
        self._ended = True
        self._to_call.clear()
        self.detach()


NOT_RECORDED = "the server ended before it had recorded the message; send it again, with codex-reply"
NOT_READ = "the server ended before the model had read the message; it is read with the next one: continue with codex-reply"


class WatchedCall(CallViewer):
    """Counts its messages by record, so that a client that comes back gets exactly the rest."""

    def __init__(
        self,
        call: Call,
        handle: Handle,
        presentation: Presentation,
        progress: "Progress | None",
        *,
        created: bool = False,
        after: int | None = None,
        seen: StreamPosition | None = None,
    ) -> None:
        super().__init__(call, handle, presentation, progress, created=created, after=after)
        assert isinstance(call.sink, StreamSink)
        self._stream_sink = call.sink
        self._begin = self.following.cursor
        self._seen = seen  # what the client has, until it has caught up
        self._record = self._begin
        self._messages = 0  # messages sent for that record
        self._counting = False
        self._in_delta = False
        self._name = ""
        self._primed = seen is not None
        call.sink.mark = self._mark
        call.sink.when_lost = self._client_lost

    async def resume(self, stream: CallStream, *, known_here: bool) -> None:
        """Show what came after the position that the client has named, and wait for the end of the turn as before."""
        seen = self._seen or StreamPosition()
        self._record, self._messages = self._begin, 0
        handle, following = self.handle, self.following
        turn = handle.turn_of_message(stream.message_id)
        leads = stream.begin == 0 or turn is not None
        work = handle.work_of(turn or "")
        self._output_schema = None if work is None else work.schema
        if turn is not None:
            following.follow_turn(turn)
        await following.resume(stream.message_id, leads=leads, shown_to=seen.record, given=seen.given)
        self._seen = None
        if known_here or self.call.answered:
            return
        with suppress(AgentError):  # if it fails, the call has been answered with the error
            await handle.committed()  # the turn may have just ended, with its end still to be shown
        if self.call.answered:
            return
        if not handle.has_message(stream.message_id):
            self.answer_failure(NOT_RECORDED)
        elif handle.facts.turn is None:
            self.answer_failure(NOT_READ)
        elif not handle.facts.runs_here:
            await self._take_up()

    async def _take_up(self) -> None:
        """The turn's process may be gone: the turn continues here if it waits for an answer, and is closed otherwise."""
        with suppress(ConversationBusy, NotAllowed):  # another process runs it, or the caller may only look
            await self.handle.submit(Resume())
        self.following.put_open_questions()

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        if live.entry.seq != self._record:
            self._record, self._messages = live.entry.seq, 0
        if not self._primed:
            self._prime()
        self._counting = True
        try:
            super().entry(live)
        finally:
            self._counting = False

    def delta(self, live: LiveDelta) -> None:
        self._in_delta = True
        try:
            super().delta(live)
        finally:
            self._in_delta = False

    def question(self, question: Question, turn: str) -> None:
        if self.handle.open_question(question.call_id) != question:
            self._questions[question.call_id] = question  # already answered; the record of the answer follows
            return
        self._counting = True
        try:
            super().question(question, turn)
        finally:
            self._counting = False

    # -- the client's position

    def _mark(self) -> bytes | Skip | None:
        seen = self._seen
        if self._counting:
            self._messages += 1
            if seen is not None and (self._record, self._messages) <= (seen.record, seen.messages):
                return SKIP
        elif seen is not None and self._record <= seen.record and not self._in_delta:
            return SKIP
        if not (self._counting or self._in_delta) or not self.following.message_id:
            return None
        return self._event_id()

    def _prime(self) -> None:
        """Wait until something is in the log: only then is there something to come back for."""
        if self.following.message_id:
            self._primed = True
            if self._peer.version >= FIRST_WITH_FORMS:  # older clients do not understand the event
                self._stream_sink.prime(self._event_id(), RETRY_MS)

    def _event_id(self) -> bytes:
        if not self._name:
            following = self.following
            token = None if self._progress is None else self.call.progress_token
            self._name = CallStream(self.call.id, token, self.handle.id, following.message_id, self._begin).encode()
        counted = 0 if self._progress is None else self._progress.count
        return write_event_id(self._name, StreamPosition(self._record, self._messages, counted, self.following.given_marks))

    def _client_lost(self) -> None:
        """The client is not expected back soon, so its questions would wait for ever. They may still be answered through the
        conversation door.
        """
        if not self.following.leads:
            return
        for call_id, question in tuple(self.handle.facts.questions.items()):
            if call_id in self._questions and not self.handle.can_be_answered():
                self.handle.deny_unasked(question.call_id, CLIENT_GONE, self.following.turn or "")


class WatchedStream(StreamViewer):
    """Every event id of the session holds this stream's position (`place`), whichever conversation the event belongs to."""

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
        self._seen = seen  # until it has caught up
        self._snapshot_begun = self._snapshot_sent = seen is not None
        # the messages are counted within that record
        self._record, self._messages = (0, 0) if seen is None else (seen.record, seen.messages)
        self._asked: dict[str, str] = {}  # digests of the open questions that the client was asked, by call id
        self._skipping = False
        if seen is not None:
            cursor = self.following.cursor = max(0, seen.record - 1)  # the client may have only a part of its last record
            self._needs_past = self._codec.needs_past and cursor > 0

    def place(self) -> bytes:
        """The position, for the id of an event."""
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
        """Whether the client has already been shown what is about to be sent."""
        return self._skipping

    async def gather(self) -> bool:
        if not self._snapshot_begun:
            self._snapshot_begun = True
            self._standalone.prime()
        return await super().gather()

    async def resume(self) -> None:
        """Show what the client lacks, and continue."""
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
