"""A `codex` or `codex-reply` call over HTTP: each of its events has an id, by which it is watched again from the log."""

from contextlib import suppress
from typing import TYPE_CHECKING

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.handle import Handle
from understudy.errors import AgentError, ConversationBusy, NotAllowed
from understudy.protocol.ops import Resume
from understudy.protocol.records import Question
from understudy.servers.http.event_ids import CallStream, StreamPosition, write_event_id
from understudy.servers.http.standalone import RETRY_MS
from understudy.servers.http.stream_sink import SKIP, Skip, StreamSink
from understudy.servers.mcp.asking import CLIENT_GONE
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.call_viewer import CallViewer
from understudy.servers.mcp.peer import FIRST_WITH_FORMS
from understudy.servers.presentation import Presentation

if TYPE_CHECKING:
    from understudy.servers.mcp.progress import Progress

NOT_RECORDED = "the server ended before it had recorded the message; send it again, with codex-reply"
NOT_READ = "the server ended before the model had read the message; it is read with the next one: continue with codex-reply"


class WatchedCall(CallViewer):
    """What it sends is counted by record, so that a client which comes back is given exactly the rest."""

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
        self._seen = seen  # what the client has, while it is caught up
        self._record = self._begin
        self._messages = 0  # of that record
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
        with suppress(AgentError):  # then the call has been answered with it
            await handle.committed()  # the turn may be over in this very moment, with its end still to be shown
        if self.call.answered:
            return
        if not handle.has_message(stream.message_id):
            self.answer_failure(NOT_RECORDED)
        elif handle.facts.turn is None:
            self.answer_failure(NOT_READ)
        elif not handle.facts.runs_here:
            await self._take_up()

    async def _take_up(self) -> None:
        """The turn ran in a process that may be gone: it goes on here if it waits for an answer, and is closed otherwise."""
        with suppress(ConversationBusy, NotAllowed):  # another process runs it; or the caller may only look
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
            self._questions[question.call_id] = question  # it was answered meanwhile; the record of that follows
            return
        self._counting = True
        try:
            super().question(question, turn)
        finally:
            self._counting = False

    # -- how far the client is

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
        """Not before something is in the log: only then there is something to come back for."""
        if self.following.message_id:
            self._primed = True
            if self._peer.version >= FIRST_WITH_FORMS:  # older clients do not know what it means
                self._stream_sink.prime(self._event_id(), RETRY_MS)

    def _event_id(self) -> bytes:
        if not self._name:
            following = self.following
            token = None if self._progress is None else self.call.progress_token
            self._name = CallStream(self.call.id, token, self.handle.id, following.message_id, self._begin).encode()
        counted = 0 if self._progress is None else self._progress.count
        return write_event_id(self._name, StreamPosition(self._record, self._messages, counted, self.following.given_marks))

    def _client_lost(self) -> None:
        """It is not expected to come back soon: what it was asked would wait for ever. By the conversation door it may."""
        if not self.following.leads:
            return
        for call_id, question in tuple(self.handle.facts.questions.items()):
            if call_id in self._questions and not self.handle.can_be_answered():
                self.handle.deny_unasked(question.call_id, CLIENT_GONE, self.following.turn or "")
