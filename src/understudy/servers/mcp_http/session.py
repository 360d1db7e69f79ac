"""A session of the legacy era: one client, its open requests, and the stream for messages that belong to no request."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import cast

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import AgentError, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import Incoming, Request, RequestId, Response
from understudy.servers.http.principals import Principal
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.mcp.asking import decision_on, find_asked, read_question_name
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.codex_tools import cancel_turn
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.handshake import Handshake
from understudy.servers.mcp.peer import FIRST_WITH_FORMS
from understudy.servers.mcp.progress import Progress
from understudy.servers.mcp.results import SESSION
from understudy.servers.mcp.stream_viewer import Snapshots
from understudy.servers.mcp.tool_table import Offer
from understudy.servers.mcp_http.ids import CallStream, SealedSession, StreamPlace, StreamPosition
from understudy.servers.mcp_http.streams import StandaloneSink, WatchedCall, WatchedStream
from understudy.servers.wire_events.presentation import Presentation, presentation_of

logger = logging.getLogger(__name__)

RETURN_SECONDS = 30.0  # for a client to return after its connection broke; then the rule answers its questions


class HttpSession:
    def __init__(self, engine: Engine, principal: Principal, sealed: SealedSession | None, offer: Offer) -> None:
        """`sealed`: of a session that was begun earlier, perhaps in another process."""
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self.standalone = StandaloneSink(self._loop, self._streams)
        handshake: Handshake | None = None if sealed is None else sealed.handshake()
        self.dispatcher = Dispatcher(engine, principal.caller, self.standalone, handshake, offer)
        self.dispatcher.client.call_viewer = self._watch
        self.dispatcher.client.stream_viewer = WatchedStream
        self.dispatcher.peer.names_questions = True
        self.principal = principal
        self.sealed = sealed
        self.used = self._loop.time()
        self._viewers: dict[RequestId, WatchedCall] = {}
        self._sinks: dict[RequestId, StreamSink] = {}  # the latest of each unanswered call
        self.speak_for(principal)

    @property
    def busy(self) -> bool:
        return bool(self.dispatcher.open_calls) or self.standalone.attached

    def speak_for(self, principal: Principal) -> None:
        self.used = self._loop.time()
        self.principal = principal
        self.dispatcher.speak_for(principal.caller)

    # -- messages

    def request(self, request: Request) -> StreamSink:
        sink = StreamSink(self._loop)
        self.dispatcher.receive(request, sink)
        if not sink.over:
            self._sinks[request.id] = sink
        return sink

    async def receive(self, message: Incoming) -> None:
        """Receive a notification, or an answer to a question, even one asked before a restart."""
        if isinstance(message, Response) and not self.dispatcher.peer.awaits(message.id):
            await self._decide(message)
        else:
            self.dispatcher.receive(message)

    async def _decide(self, response: Response) -> None:
        name = read_question_name(response.id)
        if name is None:
            logger.info("an answer to request %.100r came, which is not open", response.id)
            return
        try:
            handle = await self._engine.find(self.principal.caller, name.conversation_id)
            asked = find_asked(handle, name)
            if asked is None:
                logger.info("the answer to %.100r is to a question that is not open any more", response.id)
                return
            await handle.submit(decision_on(asked, response, self.dispatcher.peer.calls_itself))
        except AgentError as error:
            logger.info("an answer to %.100r was not taken: %s", response.id, error)

    def _watch(
        self,
        call: Call,
        handle: Handle,
        presentation: Presentation,
        progress: Progress | None,
        *,
        created: bool = False,
        after: int | None = None,
        seen: StreamPosition | None = None,
    ) -> WatchedCall:
        viewer = WatchedCall(call, handle, presentation, progress, created=created, after=after, seen=seen)
        self._viewers[call.id] = viewer
        call.when_answered(self._forget_viewer)
        return viewer

    def _forget_viewer(self, call: Call) -> None:
        viewer = self._viewers.get(call.id)
        if viewer is not None and viewer.call is call:
            del self._viewers[call.id]

    # -- connections that break and return

    def lost(self, sink: StreamSink) -> None:
        """The connection of a request is gone. The call continues; the client may come back for the rest."""
        sink.detach()
        if not sink.over:
            self._loop.call_later(RETURN_SECONDS, sink.close)

    def stopped_listening(self, stream: StreamSink) -> None:
        """The connection for messages of no request is gone. The client may open another."""
        self.standalone.leave(stream)
        if self.dispatcher.client.streams:
            self._loop.call_later(RETURN_SECONDS, self._note_absent)

    def _note_absent(self) -> None:
        if not self.standalone.attached:
            for viewer in self.dispatcher.client.streams.values():
                viewer.following.cannot_answer()

    def done(self, request_id: RequestId, sink: StreamSink) -> None:
        if self._sinks.get(request_id) is sink:
            del self._sinks[request_id]

    async def resume(self, stream: CallStream, seen: StreamPosition) -> StreamSink:
        """The rest of a call, from the log. Raises `UnknownConversation`, also for a caller who may not read it."""
        handle = await self._engine.find(self.principal.caller, stream.conversation_id)
        if seen.record > handle.facts.last_seq:
            raise UnknownConversation("the log never had that record")
        if not self._may_be(stream):
            raise UnknownConversation("the request with that id is another one here")
        client, sink = self.dispatcher.client, StreamSink(self._loop)
        sink.begin()
        before = self._sinks.pop(stream.request_id, None)
        if before is not None:
            before.when_lost = None
            before.close()
            self.dispatcher.peer.forget_asked(handle.id, before)
        known = self.dispatcher.find_open(stream.request_id)
        call = known or Call(stream.request_id, None, sink, client)
        call.sink, call.shape, call.progress_token = sink, SESSION, stream.progress_token
        progress = None
        if stream.progress_token is not None:
            progress = Progress(stream.progress_token, sink, call.id, self._loop, handle.id, seen.progress)
        if known is None:
            self.dispatcher.take_up(call)
        other = self._viewers.get(call.id)
        presentation = presentation_of(handle) if other is None else other.presentation
        if other is not None:
            other.leave()
        viewer = self._watch(call, handle, presentation, progress, after=stream.begin, seen=seen)
        self._sinks[call.id] = sink
        call.when_cancelled(lambda: handle.tasks.run(cancel_turn(viewer)))
        await viewer.resume(stream, known_here=known is not None)
        return sink

    def _may_be(self, stream: CallStream) -> bool:
        """Whether the stream can belong to this session. Clients number their requests alike, so an id from another session of the
        caller may name a request that is open here; that request must still get its own answer.
        """
        sink, viewer = self._sinks.get(stream.request_id), self._viewers.get(stream.request_id)
        if (sink is None or sink.over) and self.dispatcher.find_open(stream.request_id) is None:
            return True
        return viewer is not None and (viewer.handle.id, viewer.following.message_id) == (stream.conversation_id, stream.message_id)

    # -- messages of no request

    def _streams(self) -> Iterable[WatchedStream]:
        return cast(Mapping[ConversationId, WatchedStream], self.dispatcher.client.streams).values()

    def listen(self) -> StreamSink:
        self.standalone.primes = self.dispatcher.peer.version >= FIRST_WITH_FORMS
        return self.standalone.attach()

    async def listen_again(self, places: Iterable[StreamPlace]) -> StreamSink:
        """Like `listen`, and resume the watched conversations where the client has seen them. A conversation is left out if it is
        gone, if the caller may not read it, or if the client has begun to watch it anew.
        """
        client, viewers = self.dispatcher.client, list[WatchedStream]()
        for place in places:
            stream, seen = place.stream, place.seen
            try:
                handle = await self._engine.find(self.principal.caller, stream.conversation_id)
            except AgentError:
                continue
            before = client.streams.get(handle.id)
            if before is not None and before.request_id != stream.request_id:
                continue
            if seen is not None and seen.record > handle.facts.last_seq:
                continue  # the log never had that record
            if before is not None:
                before.stop()
            presentation = presentation_of(handle)
            viewer = WatchedStream(
                client.peer, self.standalone, handle, stream.request_id, stream.call, presentation, stream.after, seen
            )
            client.streams[handle.id] = viewer
            viewers.append(viewer)
        sink = self.listen()
        for viewer in viewers:
            if viewer.snapshot_sent:
                try:
                    await viewer.resume()
                except AgentError as error:
                    viewer.disconnect(str(error))
            else:
                snapshots = client.snapshots = client.snapshots or Snapshots(self.standalone, self._engine.tasks)
                snapshots.add(viewer)
        return sink

    # -- ending

    def leave_memory(self) -> None:
        """Nobody has come for a long time. A client that returns resumes what it watched by its last event id."""
        for stream in self.dispatcher.client.streams.values():
            stream.stop()
        self.dispatcher.client.streams.clear()
        self.standalone.close()

    def cut(self) -> None:
        """End every connection; clients that still have the right can come back."""
        self.standalone.detach()
        for sink in tuple(self._sinks.values()):
            sink.end()

    def end(self) -> None:
        """The client has ended the session. Its turns continue; the rule answers questions to it."""
        for sink in tuple(self._sinks.values()):
            sink.close()
        self._sinks.clear()
        self.leave_memory()
