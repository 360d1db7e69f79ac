"""One editor: its sessions, and the requests that it was sent."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import RequestId, Response, notification_line, request_line
from understudy.protocol.records import Overrides
from understudy.protocol.uuids import read_uuid
from understudy.servers.acp.content import Json
from understudy.servers.failures import ProtocolError
from understudy.servers.histories import Histories
from understudy.servers.sink import Sink

if TYPE_CHECKING:
    from understudy.servers.acp.session import EditorSession

logger = logging.getLogger(__name__)

NOT_FOUND = -32002


class EditorPeer:
    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        self.engine = engine
        self.caller = caller  # in whose name it speaks
        self.sink = sink
        self.histories = Histories(sink)
        self.initialized = False
        self.gives_texts = False  # it has said that it answers fs/read_text_file
        self.has_forms = False  # and elicitation/create
        self.sessions: dict[ConversationId, EditorSession] = {}
        self.lost: dict[ConversationId, Overrides | None] = {}  # sessions that could not be shown any more, with what was chosen
        self.reopening = asyncio.Lock()
        self._asked: dict[RequestId, Callable[[Response], None]] = {}
        self._counts: dict[str, int] = {}

    # -- requests of ours

    def new_request(
        self, method: str, params: Json, on_answer: Callable[[Response], None], kind: str = ""
    ) -> tuple[RequestId, bytes]:
        """A request of ours, and its id: a number, or of a `kind` of its own. Whoever makes it sends it."""
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        request_id = f"{kind}-{count}" if kind else count
        self._asked[request_id] = on_answer
        return request_id, request_line(request_id, method, params)

    def withdraw(self, request_id: RequestId) -> bytes:
        """Its answer would change nothing any more: the line that tells the client so."""
        self._asked.pop(request_id, None)
        return notification_line("$/cancel_request", {"requestId": request_id})

    def answer(self, response: Response) -> bool:
        """False where nothing was asked under this id, or it was answered before."""
        on_answer = self._asked.pop(response.id, None)
        if on_answer is None:
            logger.info("an answer to request %r came, which is not open", response.id)
            return False
        on_answer(response)
        return True

    # -- sessions

    async def find(self, session_id: str) -> Handle:
        """Raises `ProtocolError` where there is none."""
        try:
            return await self.engine.find(self.caller, read_session_id(session_id))
        except UnknownConversation:
            raise ProtocolError(NOT_FOUND, f"there is no session {session_id}") from None

    def session(self, session_id: str) -> "EditorSession":
        """Raises `ProtocolError` for one that was neither made nor loaded here."""
        session = self.sessions.get(read_session_id(session_id))
        if session is None or session.over:
            raise ProtocolError(NOT_FOUND, f"session {session_id} is not open here: call session/load first")
        return session

    def close(self) -> None:
        for session in tuple(self.sessions.values()):
            session.stop()
        self.sessions.clear()
        self.lost.clear()
        self._asked.clear()


def read_session_id(text: str) -> ConversationId:
    try:
        return ConversationId(read_uuid(text))
    except ValueError:
        raise ProtocolError(NOT_FOUND, f"there is no session {text[:100]!r}") from None
