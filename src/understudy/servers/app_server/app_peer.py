"""One client of the app server: its introduction, the requests that it was sent, and its loaded threads.

For each loaded thread, it is told what happens and asked the thread's questions (`ThreadViewer`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import merge
from understudy.engine.turn.approvals import CLIENT
from understudy.errors import AgentError, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.ops import Accepted, Decide
from understudy.protocol.records import (
    PLAN_CALL,
    Overrides,
    Question,
    TurnDropped,
    TurnEnded,
    UserInputAsked,
    UserMessage,
)
from understudy.servers.app_server.projection import Projection
from understudy.servers.app_server.question_requests import question_request, read_answer, read_input
from understudy.servers.app_server.turn_shape import NAMES, LateListener, turn_object
from understudy.servers.app_server.wire import Json, Notice, notification_line, request_line
from understudy.servers.failures import InvalidRequest
from understudy.servers.in_order import InOrder
from understudy.servers.questions import AskedQuestions, OnAnswer
from understudy.servers.rest.events import seconds_to_answer
from understudy.servers.sink import Sink
from understudy.servers.stdio.line_door import Histories
from understudy.servers.wire_events.presentation import presentation_of

logger = logging.getLogger(__name__)

MOST_WAITING = 64  # turns that wait for the running one


class ThreadViewer:
    """Called by the following (`entry`, `delta` and so on), in order."""

    def __init__(self, client: "AppPeer", handle: Handle, projection: Projection, after: int) -> None:
        self.handle = handle
        self.projection = projection
        self.chosen: Overrides | None = None  # by the client, for the next turn
        self.over = False
        self.is_deleted = False
        hides_reasoning = presentation_of(handle).hides_reasoning
        self.following = handle.follow(self, after=after, outlet=client.sink, hides_reasoning=hides_reasoning)
        self._client = client
        self._sink = client.sink
        self._held: list[bytes] = []
        self._holding = 0
        self._late = LateListener(self._send) if client.name in NAMES else None
        self._asked = AskedQuestions(handle, read_answer, self._withdraw, self._resolved, read_input=read_input)
        self.promised: set[str] = set()  # ids of turns that the client was promised and that have not begun

    @property
    def can_answer(self) -> bool:
        return not self._sink.closed

    # -- loading

    def go_live(self) -> None:
        """From here on the client is told what happens: first the text of unfinished items, then open questions."""
        self._client.threads[self.handle.id] = self
        self._client.lost.pop(self.handle.id, None)
        for live in self.following.take_unfinished():
            self.delta(live)
        self.following.go_live()
        self.following.put_open_questions()

    def stop(self) -> None:
        self.over = True
        if self._late is not None:
            self._late.stop()
        self.following.stop()
        self._asked.withdraw_all()

    def choose(self, chosen: Overrides | None) -> None:
        """Choose settings from the next turn on, on top of earlier choices."""
        if chosen is not None and chosen != Overrides():
            self.chosen = chosen if self.chosen is None else merge(self.chosen, chosen)

    # -- the order of answers and notifications

    def hold(self) -> None:
        """Hold notifications until the answer that is being made has been sent."""
        self._holding += 1

    def release(self) -> None:
        self._holding -= 1
        if not self._holding and self._held:
            lines, self._held = b"".join(self._held), []
            self._sink.send(lines, None)

    def note_answer(self, turn_id: str) -> None:
        """The client learns of its turn now, and begins to listen for it."""
        if self._late is not None:
            self._hold_for(self._late.answered(turn_id))

    def _let_it_listen(self, turn_id: str) -> None:
        """The end of this turn is sent next: hold it if the client may not be listening yet."""
        if self._late is not None:
            self._hold_for(self._late.rest(turn_id))

    def _hold_for(self, seconds: float) -> None:
        if seconds > 0:
            self.hold()
            asyncio.get_running_loop().call_later(seconds, self.release)

    def tell_first(self, notices: Iterable[Notice]) -> None:
        """Send these before everything that is held."""
        self._held[:0] = [self._client.line(method, params) for method, params in notices]

    def tell(self, notices: Iterable[Notice]) -> None:
        for method, params in notices:
            line = self._client.line(method, params)
            if self._late is not None:
                self._late.told(method, params, line)
            self._send(line)

    def _send(self, line: bytes) -> None:
        if not line or self.over:
            return
        if self._holding:
            self._held.append(line)
        else:
            self._sink.send(line, None)

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        record = live.entry.record
        if isinstance(record, TurnEnded):
            self._let_it_listen(self.projection.turn_id(live.entry.turn))
        self.tell(self.projection.entry(live.entry))
        match record:
            case TurnEnded():
                self._asked.withdraw_all()
            case UserMessage(message_id=message_id) if message_id in self.promised:
                self._keep_promise(self.projection.turn_id(live.entry.turn), message_id)
            case TurnDropped(message_id=message_id, reason=reason) if message_id in self.promised:
                self.promised.discard(message_id)
                self._tell_unbegun(message_id, "interrupted" if reason is None else "failed", reason)
            case _:
                pass

    def delta(self, live: LiveDelta) -> None:
        self.tell(self.projection.delta(live, time.time()))

    def question(self, question: Question, turn: str) -> None:
        if isinstance(question, UserInputAsked) and question.call_id.startswith(PLAN_CALL):
            self.handle.submit_soon(Decide(question.call_id, "denied", CLIENT, turn))  # its clients put the plan to their user
        elif self.following.can_answer:
            self._asked.ask(question, turn, lambda on_answer: self._ask(question, turn, on_answer))

    def question_closed(self, call_id: str, turn: str) -> None:
        self._asked.withdraw(call_id, turn)

    def ended(self, ended: TurnEnded) -> None:
        """A thread continues after every turn."""

    def failed(self, error: AgentError) -> None:
        if not self.is_deleted:
            self.tell([("warning", {"threadId": self.handle.id, "message": f"nothing more can be shown of this thread: {error}"})])
        if isinstance(error, UnknownConversation):
            self._client.unload(self.handle.id)
        else:
            self._client.lose(self)

    # -- questions

    def _ask(self, question: Question, turn: str, on_answer: OnAnswer) -> RequestId:
        projection = self.projection
        item_id = projection.item_of(question.call_id)
        cwd, seconds = self.handle.facts.cwd, _seconds_for(question, self.handle)
        method, params = question_request(question, projection.thread_id, projection.turn_id(turn), item_id, cwd, seconds)
        request_id, line = self._client.new_request(method, params, on_answer)
        self._send(line)
        return request_id

    def _withdraw(self, request_id: RequestId) -> None:
        self._client.forget_request(request_id)
        self._resolved(request_id)

    def _resolved(self, request_id: RequestId) -> None:
        self.tell([("serverRequest/resolved", {"threadId": self.handle.id, "requestId": request_id})])

    # -- turns

    @property
    def running_turn(self) -> str | None:
        """The id of the running turn, even if its beginning has not been sent yet."""
        number = self.handle.running_turn
        return None if number is None else self._id_of(number)

    def id_of_turn(self, accepted: Accepted, message_id: str) -> str:
        """The id of the turn that reads a message just accepted."""
        return message_id if not accepted.turn else self._id_of(accepted.turn)

    def _id_of(self, number: str) -> str:
        """The id that the projection has given the turn, or will give it."""
        return self.projection.turn_ids.get(number) or self.handle.message_of_turn(number) or self.projection.turn_id(number)

    # -- turns that wait for the running one

    def promise(self, turn_id: str) -> None:
        """A turn with this id will begin, now or later."""
        self.promised.add(turn_id)
        self.projection.promised.add(turn_id)
        if self._late is not None:
            self._late.expect(turn_id)

    def take_back(self, turn_id: str) -> None:
        """The turn will not begin, and the client was not told that it would."""
        self.promised.discard(turn_id)
        if self._late is not None:
            self._late.forget(turn_id)

    def _keep_promise(self, turn_id: str, message_id: str) -> None:
        """The message is in a turn."""
        self.promised.discard(message_id)
        if turn_id != message_id:
            self._tell_unbegun(message_id, "interrupted", "the message was read in a turn that another client had begun")

    def _tell_unbegun(self, turn_id: str, status: str, why: str | None = None) -> None:
        """Report the end of a promised turn that will not begin."""
        self._let_it_listen(turn_id)
        now = time.time()
        error = None if why is None else {"message": why, "codexErrorInfo": "other", "additionalDetails": None}
        turn = turn_object(turn_id, status, error=error, started_at=now, completed_at=now)
        self.tell([("turn/completed", {"threadId": self.handle.id, "turn": turn})])


def _seconds_for(question: Question, handle: Handle) -> float:
    """The time for an answer; 0: no limit. The protocol cannot express a limit for approvals."""
    if not isinstance(question, UserInputAsked):
        return 0.0
    return seconds_to_answer(handle)


class AppPeer:
    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        self.engine = engine
        self.caller = caller  # in whose name it speaks
        self.sink = sink
        self.histories = Histories(sink)
        self.initialized = False
        self.name = ""
        self.threads: dict[ConversationId, ThreadViewer] = {}  # loaded threads: the client is told what happens in them
        self.lost: dict[ConversationId, Overrides | None] = {}  # threads whose viewer was lost, with its choices
        self.reopening = asyncio.Lock()
        self._opted_out: frozenset[str] = frozenset()
        self._order = InOrder()
        self._asked: dict[RequestId, Callable[[Response], None]] = {}
        self._next_id = 0

    def meet(self, name: str, opted_out: frozenset[str]) -> None:
        self.initialized, self.name, self._opted_out = True, name, opted_out

    # -- notifications and requests

    def line(self, method: str, params: Json) -> bytes:
        """A notification's line; empty if the client does not want such notifications."""
        return b"" if method in self._opted_out else notification_line(method, params)

    def notify(self, method: str, params: Json) -> None:
        line = self.line(method, params)
        if line:
            self.sink.send(line, None)

    def new_request(self, method: str, params: Json, on_answer: Callable[[Response], None]) -> tuple[RequestId, bytes]:
        """A new request and its id. The caller sends it."""
        request_id = self._next_id
        self._next_id += 1
        self._asked[request_id] = on_answer
        return request_id, request_line(request_id, method, params)

    def forget_request(self, request_id: RequestId) -> None:
        """The request's answer would no longer change anything."""
        self._asked.pop(request_id, None)

    def answer(self, response: Response) -> bool:
        """False if nothing was asked under this id, or it was already answered."""
        on_answer = self._asked.pop(response.id, None)
        if on_answer is None:
            logger.info("an answer to request %r came, which is not open", response.id)
            return False
        on_answer(response)
        return True

    # -- threads

    async def find(self, thread_id: str, *, to_send: bool = False) -> Handle:
        """Requests about one thread continue from here in their order of arrival. Raises `InvalidRequest`."""
        conversation_id = read_thread_id(thread_id)
        if (behind_others := self._order.enter(conversation_id)) is not None:
            await behind_others
        try:
            return await self.engine.find(self.caller, conversation_id, to_send=to_send)
        except UnknownConversation:
            raise InvalidRequest(f"thread not found: {conversation_id}") from None
        finally:
            self._order.leave(conversation_id)

    async def in_order(self, conversation_id: ConversationId) -> None:
        """Wait until earlier requests about the thread have continued."""
        if (behind_others := self._order.enter(conversation_id)) is not None:
            await behind_others
        self._order.leave(conversation_id)

    def lose(self, viewer: ThreadViewer) -> None:
        """A write failed, so the viewer can show nothing more. The next request about the thread follows it again."""
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
