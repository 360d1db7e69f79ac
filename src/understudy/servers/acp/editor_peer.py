"""One editor: its sessions, and the requests that it was sent.

Asks an editor for the text of a file (`fs/read_text_file`), which it may not have saved. It is never asked to write one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.jsonrpc import RequestId, Response, notification_line, request_line
from understudy.protocol.records import Overrides
from understudy.servers.acp.content import Json
from understudy.servers.failures import ProtocolError
from understudy.servers.sink import Sink
from understudy.servers.stdio.line_door import Histories

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


PATIENCE_SECONDS = 2.0  # for one answer: the model waits, and the disk has a text too
LESS_PATIENCE_SECONDS = 0.5  # with one that did not answer the last time
AT_ONCE = 8
MOST_IN_VAIN = 3  # unanswered requests, one after the other, after which it is left alone for a while
REST_SECONDS = 60.0
MOST_CHARACTERS = 8 * 1024 * 1024


class EditorTexts:
    """Of one session."""

    def __init__(self, client: EditorPeer, session_id: str, send: Callable[[bytes], None]) -> None:
        self._client = client
        self._session_id = session_id
        self._send = send
        self._room = asyncio.Semaphore(AT_ONCE)
        self._in_vain = 0
        self._rests_until = 0.0
        self._waiting: set[asyncio.Future[Response | None]] = set()
        self._over = False

    async def text_of(self, path: str) -> str | None:
        async with self._room:
            loop = asyncio.get_running_loop()
            if self._over or self._client.sink.closed or loop.time() < self._rests_until:
                return None
            answered: asyncio.Future[Response | None] = loop.create_future()
            request_id, line = self._client.new_request(
                "fs/read_text_file",
                {"sessionId": self._session_id, "path": path},
                lambda response: None if answered.done() else answered.set_result(response),
                "text",  # so that questions have the same ids for every client
            )
            self._waiting.add(answered)
            self._send(line)
            try:
                async with asyncio.timeout(LESS_PATIENCE_SECONDS if self._in_vain else PATIENCE_SECONDS):
                    response = await answered
            except TimeoutError:
                self._note_silence()
                response = None
            finally:
                self._waiting.discard(answered)
                if not answered.done() or answered.cancelled():
                    self._send(self._client.withdraw(request_id))
            return None if response is None else self._read(response, path)

    def stop(self) -> None:
        """The session is not open any more."""
        self._over = True
        for answered in tuple(self._waiting):
            if not answered.done():
                answered.set_result(None)

    def _read(self, response: Response, path: str) -> str | None:
        self._in_vain = 0
        if response.failed or response.unreadable:
            logger.debug("the editor does not have %s: %.200r", path, response.error)
            return None
        match response.result:
            case {"content": str(text)} if len(text) <= MOST_CHARACTERS:
                return text
            case _:
                logger.info("the editor's answer about %s cannot be used: it is no text, or too long", path)
                return None

    def _note_silence(self) -> None:
        self._in_vain += 1
        if self._in_vain >= MOST_IN_VAIN:
            self._in_vain = 0
            self._rests_until = asyncio.get_running_loop().time() + REST_SECONDS
            logger.warning("the editor does not answer fs/read_text_file: files are read from the disk for a while")
