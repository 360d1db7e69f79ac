"""One client of the app server: what it said of itself, the threads it has loaded, and the questions it was asked."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.records import Overrides
from understudy.servers.app_server.wire import Json, notification_line, request_line
from understudy.servers.failures import InvalidRequest
from understudy.servers.in_order import InOrder
from understudy.servers.sink import Sink
from understudy.servers.stdio.line_door import Histories

if TYPE_CHECKING:
    from understudy.servers.app_server.thread_viewer import ThreadViewer

logger = logging.getLogger(__name__)


class AppPeer:
    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        self.engine = engine
        self.caller = caller  # in whose name it speaks
        self.sink = sink
        self.histories = Histories(sink)
        self.initialized = False
        self.name = ""
        self.threads: dict[ConversationId, ThreadViewer] = {}  # loaded: what happens in them is told
        self.lost: dict[ConversationId, Overrides | None] = {}  # threads whose viewer was lost, with what it had chosen
        self.reopening = asyncio.Lock()
        self._opted_out: frozenset[str] = frozenset()
        self._order = InOrder()
        self._asked: dict[RequestId, Callable[[Response], None]] = {}
        self._next_id = 0

    def meet(self, name: str, opted_out: frozenset[str]) -> None:
        self.initialized, self.name, self._opted_out = True, name, opted_out

    # -- what it is told and asked

    def line(self, method: str, params: Json) -> bytes:
        """A notification; nothing where it does not want to be told of such."""
        return b"" if method in self._opted_out else notification_line(method, params)

    def notify(self, method: str, params: Json) -> None:
        line = self.line(method, params)
        if line:
            self.sink.send(line, None)

    def new_request(self, method: str, params: Json, on_answer: Callable[[Response], None]) -> tuple[RequestId, bytes]:
        """A request of ours, and its id. Whoever makes it sends it."""
        request_id = self._next_id
        self._next_id += 1
        self._asked[request_id] = on_answer
        return request_id, request_line(request_id, method, params)

    def forget_request(self, request_id: RequestId) -> None:
        """Its answer would change nothing any more."""
        self._asked.pop(request_id, None)

    def answer(self, response: Response) -> bool:
        """False where nothing was asked under this id, or it was answered before."""
        on_answer = self._asked.pop(response.id, None)
        if on_answer is None:
            logger.info("an answer to request %r came, which is not open", response.id)
            return False
        on_answer(response)
        return True

    # -- threads

    async def find(self, thread_id: str, *, to_send: bool = False) -> Handle:
        """Requests about one thread get on from here in the order in which they came. Raises `InvalidRequest`."""
        conversation_id = read_thread_id(thread_id)
        if (behind_others := self._order.enter(conversation_id)) is not None:
            await behind_others
        try:
            return await self.engine.find(self.caller, conversation_id, to_send=to_send)
        except UnknownConversation:
            raise InvalidRequest(f"thread not found: {conversation_id}") from None
        finally:
            self._order.leave(conversation_id)

    async def loaded(self, thread_id: str) -> "ThreadViewer":
        """Raises `InvalidRequest` for a thread that was neither started nor resumed here."""
        conversation_id = read_thread_id(thread_id)
        viewer = self.threads.get(conversation_id)
        if viewer is not None and not viewer.over:
            if (behind_others := self._order.enter(conversation_id)) is not None:
                await behind_others
            self._order.leave(conversation_id)
            if not viewer.over:
                return viewer
        handle = await self.find(thread_id)
        if conversation_id in self.lost:
            from understudy.servers.app_server.threads import follow_again  # seldom needed

            return await follow_again(self, handle)
        raise InvalidRequest(f"thread not found: {conversation_id}\nIt is not loaded here: call thread/resume first.")

    def lose(self, viewer: "ThreadViewer") -> None:
        """It cannot be shown anything more for now: a write has failed. The next request about the thread follows it anew."""
        if self.threads.get(viewer.handle.id) is viewer:
            self.unload(viewer.handle.id)
            self.lost[viewer.handle.id] = viewer.chosen

    def unload(self, conversation_id: ConversationId) -> bool:
        self.lost.pop(conversation_id, None)
        viewer = self.threads.pop(conversation_id, None)
        if viewer is None:
            return False
        viewer.stop()
        return True

    def close(self) -> None:
        for viewer in self.threads.values():
            viewer.stop()
        self.threads.clear()
        self._asked.clear()


def read_thread_id(text: str) -> ConversationId:
    try:
        return ConversationId(read_uuid(text))
    except ValueError as error:
        raise InvalidRequest(f"invalid thread id: {error}") from None
