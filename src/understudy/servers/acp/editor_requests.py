"""Requests to an editor, and one kind of them: reading the text of a file that may be unsaved (`fs/read_text_file`).

The editor is never asked to write a file.
"""

import asyncio
import logging
from collections.abc import Callable

from understudy.protocol.jsonrpc import RequestId, Response, notification_line, request_line
from understudy.servers.acp.content import Json
from understudy.servers.sink import Sink

logger = logging.getLogger(__name__)


class EditorRequests:
    """The requests that one editor has not answered yet."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._asked: dict[RequestId, Callable[[Response], None]] = {}
        self._counts: dict[str, int] = {}

    def new_request(
        self, method: str, params: Json, on_answer: Callable[[Response], None], kind: str = ""
    ) -> tuple[RequestId, bytes]:
        """A new request and its id: a number, or an id with a `kind`. The caller sends it."""
        count = self._counts[kind] = self._counts.get(kind, -1) + 1
        request_id = f"{kind}-{count}" if kind else count
        self._asked[request_id] = on_answer
        return request_id, request_line(request_id, method, params)

    def withdraw(self, request_id: RequestId) -> bytes:
        """The line that tells the client that the request's answer is no longer needed."""
        self._asked.pop(request_id, None)
        return notification_line("$/cancel_request", {"requestId": request_id})

    def answer(self, response: Response) -> bool:
        """False if nothing was asked under this id, or it was already answered."""
        on_answer = self._asked.pop(response.id, None)
        if on_answer is None:
            logger.info("an answer to request %r came, which is not open", response.id)
            return False
        on_answer(response)
        return True

    def forget_all(self) -> None:
        self._asked.clear()


PATIENCE_SECONDS = 2.0  # for one answer: the model waits, and the text is also on disk
LESS_PATIENCE_SECONDS = 0.5  # if the last request was not answered
AT_ONCE = 8
MOST_IN_VAIN = 3  # unanswered requests in a row before a pause
REST_SECONDS = 60.0
MOST_CHARACTERS = 8 * 1024 * 1024


class EditorTexts:
    """The unsaved texts of one session."""

    def __init__(self, client: EditorRequests, session_id: str, send: Callable[[bytes], None]) -> None:
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
                "text",  # a text id, so that questions have the same ids for every client
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
        """The session is no longer open."""
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
