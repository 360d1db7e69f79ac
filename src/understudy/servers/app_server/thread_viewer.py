"""A thread that a client has loaded: it is told what happens there and asked what is asked there.

The turns that a client may begin to listen for only some time after it has read the answer to `turn/start`.

OpenAI's Python SDK reads answers and notifications in one thread and waits for its turn in another. When its reader sees
`turn/completed` before the other thread listens for the turn, it drops that and all that was told of the turn, and
`thread.run` waits for ever. Nothing tells us that it listens, and on a busy machine it takes longer than anybody wants to
hold back the end of each turn. So the end is held for a moment only, and told again afterwards, with what the SDK makes its
result of. Where the end was heard, the SDK drops the repetition. Questions are requests here, and answers are read.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import merge
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.turn.turn_budget import PLAN_CALL
from understudy.errors import AgentError, UnknownConversation
from understudy.policy.mcp_tools import tool_message
from understudy.policy.question_text import budget_question
from understudy.policy.questions import CommandQuestion, PatchQuestion, command_reason, patch_reason
from understudy.protocol.choices import Decision
from understudy.protocol.jsonrpc import RequestId, Response
from understudy.protocol.ops import Accepted, Decide
from understudy.protocol.records import (
    Answers,
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    InputQuestion,
    Overrides,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    TurnDropped,
    TurnEnded,
    UserInputAsked,
    UserMessage,
)
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.items import command_actions
from understudy.servers.app_server.projection import Projection
from understudy.servers.app_server.turn_shape import turn_object
from understudy.servers.app_server.wire import Json, Notice, milliseconds
from understudy.servers.questions import AskedQuestions, OnAnswer, unusable
from understudy.servers.wire_events.presentation import presentation_of
from understudy.text import make_visible, quote_command

NAMES = frozenset({"codex_python_sdk"})
MOMENT = 0.5  # seconds after the answer to `turn/start` in which the end of the turn is held back
AGAIN = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds between the end and its repetitions
LONG = 15.0  # seconds after the answer: of a turn that ends later nothing is repeated
MOST_BYTES = 512 * 1024  # of what is kept of a turn; beyond that, only its end is repeated
REPEATED = frozenset({"item/completed", "thread/tokenUsage/updated", "error", "turn/completed"})


@dataclass
class _Turn:
    answered: float | None = None  # when `turn/start` was, by the loop's clock
    is_over: bool = False
    lines: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    timer: asyncio.TimerHandle | None = None


class LateListener:
    """Of one client that is known for it, in one thread. `send` takes lines."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._turns: dict[str, _Turn] = {}

    def expect(self, turn_id: str) -> None:
        """`turn/start` is about to be answered with this turn."""
        self._turns[turn_id] = _Turn()

    def forget(self, turn_id: str) -> None:
        turn = self._turns.pop(turn_id, None)
        if turn is not None and turn.timer is not None:
            turn.timer.cancel()

    def answered(self, turn_id: str) -> float:
        """The client learns of the turn now. Returns for how long its end is to be held back, if it is over already."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return 0.0
        turn.answered = self._loop.time()
        return MOMENT if turn.is_over else 0.0

    def rest(self, turn_id: str) -> float:
        """For how long the end of the turn, which is about to be told, is to be held back from now on."""
        turn = self._turns.get(turn_id)
        if turn is None or turn.answered is None:
            return 0.0
        return turn.answered + MOMENT - self._loop.time()

    def told(self, method: str, params: Json, line: bytes) -> None:
        """The client was sent this."""
        if method not in REPEATED:
            return
        turn_id = params["turn"]["id"] if method == "turn/completed" else params.get("turnId", "")
        turn = self._turns.get(turn_id)
        if turn is None or turn.is_over:
            return
        if turn.answered is not None and self._loop.time() > turn.answered + LONG:
            self.forget(turn_id)
            return
        turn.is_over = method == "turn/completed"
        turn.size += len(line)
        if turn.size > MOST_BYTES:
            turn.lines.clear()
        if turn.size <= MOST_BYTES or turn.is_over:
            turn.lines.append(line)
        if turn.is_over:
            self._repeat_later(turn_id, turn, 0)

    def _repeat_later(self, turn_id: str, turn: _Turn, times: int) -> None:
        if times == len(AGAIN):
            del self._turns[turn_id]
        else:
            turn.timer = self._loop.call_later(AGAIN[times], self._repeat, turn_id, turn, times)

    def _repeat(self, turn_id: str, turn: _Turn, times: int) -> None:
        self._send(b"".join(turn.lines))
        self._repeat_later(turn_id, turn, times + 1)

    def stop(self) -> None:
        for turn_id in list(self._turns):
            self.forget(turn_id)


COMMAND_DECISIONS = ["accept", "acceptForSession", "decline", "cancel"]


class _Given(msgspec.Struct):
    answers: tuple[str, ...] = ()


class _UserInput(msgspec.Struct):
    answers: dict[str, _Given]


_DECISIONS: dict[str, Decision] = {
    "accept": "approved",
    "acceptForSession": "approved_for_session",
    "decline": "denied",
    "cancel": "abort",
}


def question_request(question: Question, thread_id: str, turn_id: str, item_id: str, cwd: str, seconds: float) -> tuple[str, Json]:
    """Method and params by which it is put. `cwd`: files below it are named from there. `seconds`: for an answer; 0: for ever."""
    about: Json = {"threadId": thread_id, "turnId": turn_id, "itemId": item_id, "startedAtMs": milliseconds(time.time())}
    match question:
        case CommandApprovalAsked():
            return "item/commandExecution/requestApproval", _about_command(question, about)
        case PatchApprovalAsked():
            reason = patch_reason(PatchQuestion.of(question, cwd)) or None
            return "item/fileChange/requestApproval", {**about, "reason": reason, "grantRoot": None}
        case ToolApprovalAsked():
            return _elicitation(question.server, tool_message(question), about)
        case HookApprovalAsked():
            from understudy.policy.hook_words import hook_message  # few users have hooks

            return _elicitation("understudy", hook_message(question), about)
        case UserInputAsked(questions=questions):
            del about["startedAtMs"]
            left = round(seconds * 1000) if seconds else None
            asked = [_asked(each) for each in questions]
            return "item/tool/requestUserInput", {**about, "questions": asked, "isBlocking": True, "autoResolutionMs": left}
        case BudgetAsked():
            return _elicitation("understudy", budget_question(question), about)


def _asked(question: InputQuestion) -> Json:
    options = [{"label": option.label, "description": option.description} for option in question.options]
    told: Json = {"id": question.id, "header": question.header, "question": question.question}
    return {**told, "isOther": True, "isSecret": False, "options": options or None}


def _about_command(question: CommandApprovalAsked, about: Json) -> Json:
    return {
        "kind": "command",
        **about,
        "environmentId": "local",
        "reason": command_reason(CommandQuestion.of(question)) or None,
        "command": make_visible(quote_command(question.command)),
        "cwd": question.cwd,
        "commandActions": command_actions(question.command),
        "proposedExecpolicyAmendment": None,
        "availableDecisions": COMMAND_DECISIONS,
    }


def _elicitation(server: str, message: str, about: Json) -> tuple[str, Json]:
    """For what the protocol has no question of its own: a form with nothing to fill in, to be accepted or declined."""
    form: Json = {"type": "object", "properties": {}}
    params: Json = {"mode": "form", "message": message, "requestedSchema": form, "_meta": None}
    return "mcpServer/elicitation/request", {**about, "serverName": server, **params}


def read_answer(response: Response) -> tuple[Decision, str]:
    """What a client decided, and in whose name. Whatever cannot be understood is a no."""
    if (refusal := unusable(response)) is not None:
        return refusal
    match response.result:
        case {"decision": str(word)}:
            return _DECISIONS.get(word, "denied"), CLIENT
        case {"decision": {"acceptWithExecpolicyAmendment": _}}:
            return "approved", CLIENT  # this once: rules are the user's, in the configuration
        case {"action": "accept"}:
            return "approved", CLIENT
        case {"action": "cancel"}:
            return "abort", CLIENT
        case _:
            return "denied", CLIENT


def read_input(question: UserInputAsked, response: Response) -> tuple[Decision, str, Answers]:
    """What was answered. An error, or nothing in it, is no answer, and is told to the model as that."""
    if (refusal := unusable(response)) is not None:
        return *refusal, {}
    from understudy.policy.user_input import read_answers  # few turns ask the user anything

    try:
        given = msgspec.convert(response.result, _UserInput).answers
        answers = read_answers(question, {name: each.answers for name, each in given.items()})
    except (msgspec.ValidationError, ValueError) as error:
        return "denied", f"the client's answer could not be used: {error}", {}
    return ("approved", CLIENT, answers) if answers else ("denied", CLIENT, {})


logger = logging.getLogger(__name__)

MOST_WAITING = 64  # turns that wait for the running one


class ThreadViewer:
    """`entry`, `delta` and so on are called by the following, in order."""

    def __init__(self, client: AppPeer, handle: Handle, projection: Projection, after: int) -> None:
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
        self.promised: set[str] = set()  # ids of turns that the client was promised, and that have not begun

    @property
    def can_answer(self) -> bool:
        return not self._sink.closed

    # -- loading

    def go_live(self) -> None:
        """From here on the client is told what happens. What was said of unfinished items comes first, then open questions."""
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
        """From the next turn on, over what was chosen before."""
        if chosen is not None and chosen != Overrides():
            self.chosen = chosen if self.chosen is None else merge(self.chosen, chosen)

    # -- the order of answers and notifications

    def hold(self) -> None:
        """What happens from here on is told after the answer that is being made."""
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
        """The end of this turn comes next."""
        if self._late is not None:
            self._hold_for(self._late.rest(turn_id))

    def _hold_for(self, seconds: float) -> None:
        if seconds > 0:
            self.hold()
            asyncio.get_running_loop().call_later(seconds, self.release)

    def tell_first(self, notices: Iterable[Notice]) -> None:
        """Before everything that is held."""
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
        """A thread goes on after every turn."""

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
        """The id of the turn that runs, also where its beginning has not been told yet."""
        number = self.handle.running_turn
        return None if number is None else self._id_of(number)

    def id_of_turn(self, accepted: Accepted, message_id: str) -> str:
        """Of the turn that reads a message which was accepted just now."""
        return message_id if not accepted.turn else self._id_of(accepted.turn)

    def _id_of(self, number: str) -> str:
        """By the projection, once it was told of the turn; else by what it will be told."""
        return self.projection.turn_ids.get(number) or self.handle.message_of_turn(number) or self.projection.turn_id(number)

    # -- turns that wait for the running one

    def promise(self, turn_id: str) -> None:
        """A turn of this id is to begin, now or later."""
        self.promised.add(turn_id)
        self.projection.promised.add(turn_id)
        if self._late is not None:
            self._late.expect(turn_id)

    def take_back(self, turn_id: str) -> None:
        """It does not begin, and the client was not told that it would."""
        self.promised.discard(turn_id)
        if self._late is not None:
            self._late.forget(turn_id)

    def _keep_promise(self, turn_id: str, message_id: str) -> None:
        """The message is in a turn."""
        self.promised.discard(message_id)
        if turn_id != message_id:
            self._tell_unbegun(message_id, "interrupted", "the message was read in a turn that another client had begun")

    def _tell_unbegun(self, turn_id: str, status: str, why: str | None = None) -> None:
        """Of a turn that was promised and will not begin."""
        self._let_it_listen(turn_id)
        now = time.time()
        error = None if why is None else {"message": why, "codexErrorInfo": "other", "additionalDetails": None}
        turn = turn_object(turn_id, status, error=error, started_at=now, completed_at=now)
        self.tell([("turn/completed", {"threadId": self.handle.id, "turn": turn})])


def _seconds_for(question: Question, handle: Handle) -> float:
    """That there are for an answer. 0: it may take for ever; of approvals the protocol does not tell it."""
    if not isinstance(question, UserInputAsked):
        return 0.0
    from understudy.servers.rest.events import seconds_to_answer  # few turns ask the user anything

    return seconds_to_answer(handle)
