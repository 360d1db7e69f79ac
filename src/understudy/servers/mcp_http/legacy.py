"""The era with sessions (up to 2025-11-25) over HTTP: POST, GET and DELETE of one endpoint."""

import asyncio
import logging

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.jsonrpc import Incoming, Malformed, Request
from understudy.servers.http.answers import Refusal, Send, send_answer
from understudy.servers.http.asked import Asked
from understudy.servers.http.guards import accepts
from understudy.servers.http.heads import Head
from understudy.servers.http.principals import Principal, Principals
from understudy.servers.http.streaming import Exchange, send_json, send_stream
from understudy.servers.mcp.handshake import PREFIX, VERSIONS
from understudy.servers.mcp.modern import HEADER_MISMATCH
from understudy.servers.mcp.tool_table import Offer
from understudy.servers.mcp_http.ids import BEGINNING, SessionIds, read_event_id, read_stream_places
from understudy.servers.mcp_http.session import HttpSession

logger = logging.getLogger(__name__)

MOST_SESSIONS = 10_000  # in memory; the others are restored from their ids
IDLE_SECONDS = 30 * 60.0
CROWDED_SECONDS = 5.0  # the shorter time when there are that many


class _SessionExchange(Exchange):
    __slots__ = ("_request_id", "_session")

    def __init__(self, session: HttpSession, session_id: str, request: Request) -> None:
        super().__init__(session.request(request), ((b"mcp-session-id", session_id.encode()),))
        self._session = session
        self._request_id = request.id

    def finish(self) -> None:
        if self.sink.over:
            self._session.done(self._request_id, self.sink)
        else:
            self._session.lost(self.sink)


class Legacy:
    def __init__(self, engine: Engine, ids: SessionIds, offer: Offer) -> None:
        self._engine = engine
        self._offer = offer
        self.ids = ids
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[str, HttpSession] = {}

    # -- requests

    async def post(self, asked: Asked, message: Incoming, principal: Principal, send: Send) -> None:
        if isinstance(message, Malformed):
            raise Refusal(400, message.reason, code=message.code, request_id=message.id)
        session_id = asked.header(b"mcp-session-id")
        if session_id is None:
            await self._begin(message, principal, send)
            return
        session = self._find(session_id, principal)
        self._check_version(asked)
        if not isinstance(message, Request):
            await session.receive(message)
            await send_answer(send, 202, headers=((b"mcp-session-id", session_id.encode()),))
            return
        if message.method == "initialize":
            raise Refusal(400, "this session is initialized already; begin another one without a session id", request_id=message.id)
        await _SessionExchange(session, session_id, message).run(asked.receive, send)

    def begin(self, head: Head, request: Request, principal: Principal) -> Exchange | None:
        """Begin a request at once if its session is in memory."""
        session_id = head.session_id
        session = None if session_id is None else self._sessions.get(session_id)
        sealed = None if session is None else session.sealed
        if session is None or sealed is None or session_id is None or request.method == "initialize":
            return None
        if sealed.principal != principal.caller.name or self.ids.is_over(sealed) or not principal.has_all_of(session.principal):
            return None
        session.speak_for(principal)
        return _SessionExchange(session, session_id, request)

    async def get(self, asked: Asked, principal: Principal, send: Send) -> None:
        """The rest of a call's stream, or the stream for messages of no call."""
        if not accepts(asked.header(b"accept"), "text/event-stream"):
            raise Refusal(406, "GET answers with text/event-stream, which the request does not accept")
        session_id, session = self._named(asked, principal)
        headers = ((b"mcp-session-id", session_id.encode()),)
        last = asked.header(b"last-event-id")
        if last is None or last.startswith(BEGINNING):
            places = [] if last is None else read_stream_places(last)
            if places is None:
                raise Refusal(400, "Last-Event-ID names no stream that can be resumed")
            stream = await session.listen_again(places) if places else session.listen()
            try:
                await send_stream(stream, asked.receive, send, headers)
            finally:
                session.stopped_listening(stream)
            return
        found = read_event_id(last)
        if found is None:
            raise Refusal(400, "Last-Event-ID names no stream that can be resumed")
        try:
            sink = await session.resume(*found)
        except AgentError:
            raise Refusal(400, "Last-Event-ID names no stream that can be resumed") from None
        try:
            await send_stream(sink, asked.receive, send, headers)
        finally:
            if sink.over:
                session.done(found[0].request_id, sink)
            else:
                session.lost(sink)

    async def delete(self, asked: Asked, principal: Principal, send: Send) -> None:
        session_id, session = self._named(asked, principal)
        assert session.sealed is not None
        self.ids.end(session.sealed)
        self._sessions.pop(session_id, None)
        session.end()
        await send_answer(send, 200)

    async def _begin(self, message: Incoming, principal: Principal, send: Send) -> None:
        if not isinstance(message, Request) or message.method != "initialize":
            if isinstance(message, Request) and PREFIX.encode() in bytes(message.params or b""):
                raise Refusal(400, "the header MCP-Protocol-Version is missing", code=HEADER_MISMATCH, request_id=message.id)
            request_id = message.id if isinstance(message, Request) else None
            raise Refusal(400, "Missing session ID: begin with initialize, and send its Mcp-Session-Id", request_id=request_id)
        session = HttpSession(self._engine, principal, None, self._offer)
        sink = session.request(message)
        peer = session.dispatcher.peer
        if peer.handshake is None:
            await send_json(sink, send, 400)
            return
        session_id = self.ids.make(principal.name, peer.handshake, peer.version)
        session.sealed = self.ids.read(session_id)
        self._remember(session_id, session)
        await send_json(sink, send, headers=((b"mcp-session-id", session_id.encode()),))

    # -- sessions

    def knows(self, session_id: str | None) -> bool:
        return session_id is not None and self.ids.read(session_id) is not None

    def _named(self, asked: Asked, principal: Principal) -> tuple[str, HttpSession]:
        session_id = asked.header(b"mcp-session-id")
        if session_id is None:
            raise Refusal(400, "Missing session ID")
        session = self._find(session_id, principal)
        self._check_version(asked)
        return session_id, session

    def _find(self, session_id: str, principal: Principal) -> HttpSession:
        """Another caller's session gets the same answer as one that never existed."""
        session = self._sessions.get(session_id)  # a session in memory was checked when it was made
        known = None if session is None else session.sealed
        sealed = self.ids.read(session_id) if known is None or self.ids.is_over(known) else known
        if sealed is None or sealed.principal != principal.name:
            raise Refusal(404, "Session not found: begin another one with initialize")
        if session is not None and not principal.has_all_of(session.principal):
            session.end()  # work begun with more rights does not continue with fewer
            session = None
        if session is None:
            session = HttpSession(self._engine, principal, sealed, self._offer)
            self._remember(session_id, session)
        session.speak_for(principal)
        return session

    @staticmethod
    def _check_version(asked: Asked) -> None:
        version = asked.header(b"mcp-protocol-version")
        if version is not None and version not in VERSIONS:
            raise Refusal(400, f"Unsupported protocol version; this session speaks one of {', '.join(VERSIONS)}")

    def _remember(self, session_id: str, session: HttpSession) -> None:
        if len(self._sessions) >= MOST_SESSIONS:
            self.forget_idle(CROWDED_SECONDS)
        self._sessions[session_id] = session

    def look_after(self) -> None:
        """To be called about every second."""
        self.ids.reload()
        self.forget_idle()

    def forget_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Drop unused sessions from memory. A client that comes back restores its session by its id."""
        now = self._loop.time()
        for session_id, session in tuple(self._sessions.items()):
            if not session.busy and now - session.used >= seconds:
                del self._sessions[session_id]
                session.leave_memory()

    # -- the server

    def principals_changed(self, principals: Principals) -> None:
        """Close the connections of callers whose rights have changed or gone."""
        for session_id, session in tuple(self._sessions.items()):
            if principals.current(session.principal.name) != session.principal:
                session.end()
                del self._sessions[session_id]

    @property
    def in_memory(self) -> int:
        """How many sessions are in memory."""
        return len(self._sessions)

    @property
    def open_calls(self) -> int:
        return sum(len(session.dispatcher.open_calls) for session in self._sessions.values())

    def close(self) -> None:
        """The server ends: tell those who still wait."""
        for session in self._sessions.values():
            session.dispatcher.close()
            session.standalone.close()
