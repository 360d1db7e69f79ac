"""Questions in the era without sessions: a call is answered by what it needs to know, and repeated with the answers.

The client keeps the sealed state between two rounds. It says which turn is watched, by whom, and from which record. The log holds
what was asked and answered, so that a round can come late, twice, or to another process.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.config.home import state_dir
from understudy.config.model import ReportKind
from understudy.engine.handle import PATIENCE_SECONDS, Handle
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError, ConversationBusy, NotAllowed, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import Response
from understudy.protocol.ops import Decide, Resume
from understudy.protocol.records import Question
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp.asking import check_answer, decision_on, find_asked, question_name, question_params, read_question_name
from understudy.servers.mcp.call import LATER, Call, CallViewer, Later
from understudy.servers.mcp.codex_tools import cancel_turn
from understudy.servers.mcp.progress import Progress
from understudy.servers.sealing import IdSeal
from understudy.servers.wire_events.presentation import Presentation, presentation_of

if TYPE_CHECKING:
    from understudy.engine.engine import Engine

MOST_ROUNDS = 9  # clients give up after the tenth
VALID_SECONDS = 7 * 24 * 3600
READ_BACK = 64  # records, in search of what was asked
GATHER_SECONDS = 0.02  # questions that come together are asked together
_encode = msgspec.msgpack.Encoder().encode


class _State(msgspec.Struct, frozen=True, array_like=True):
    principal: str
    digest: bytes  # digest of the tool's name and its arguments
    conversation_id: str
    message_id: str
    turn: str
    shown_to: int  # the last record that the client was shown
    round: int
    expires: int


_decode = msgspec.msgpack.Decoder(_State).decode


class _ReportAsked(msgspec.Struct):
    report: ReportKind | None = None


class AskedAgain(msgspec.Struct):
    """What a call of a tool says about its earlier rounds."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")
    request_state: str | None = msgspec.field(name="requestState", default=None)
    input_responses: dict[str, Any] = msgspec.field(name="inputResponses", default_factory=dict[str, Any])

    def report(self) -> ReportKind | None:
        """The kind of report that the call wants; its arguments were checked in the first round."""
        return msgspec.json.decode(self.arguments, type=_ReportAsked).report

    def digest(self) -> bytes:
        try:
            plain = msgspec.json.encode(msgspec.json.decode(self.arguments), order="deterministic")
        except msgspec.MsgspecError:
            plain = bytes(self.arguments)
        return sha256(self.name.encode() + b"\0" + plain).digest()[:16]


class Rounds:
    """The rounds of one call: makes its viewer, and resumes where the previous round ended."""

    def __init__(self, call: Call, asked: AskedAgain) -> None:
        self._engine: Engine = call.client.engine
        self._principal = call.client.caller.name
        self._asked = asked
        self.number = 0

    def make_viewer(
        self,
        call: Call,
        handle: Handle,
        presentation: Presentation,
        progress: Progress | None,
        *,
        created: bool = False,
        after: int | None = None,
    ) -> "RoundViewer":
        return RoundViewer(self, call, handle, presentation, progress, created=created, after=after)

    def state(self, viewer: CallViewer) -> str:
        following = viewer.following
        state = _State(
            self._principal,
            self._asked.digest(),
            viewer.handle.id,
            following.message_id,
            following.turn or "",
            following.cursor,
            self.number + 1,
            int(time.time()) + VALID_SECONDS,
        )
        return self._seal().close(_encode(state))

    async def take_up(self, call: Call) -> Later:
        """Pass the answers to the conversation and watch on. Raises `InvalidParams` if the state does not belong to this call."""
        state = self._read(self._asked.request_state or "")
        try:
            handle = await call.client.find(ConversationId(state.conversation_id))
        except UnknownConversation:
            raise InvalidParams("`requestState` is not valid for this call") from None
        decisions = self._decisions(handle, call.client.peer.calls_itself)
        self.number = state.round
        unknown = await _decide(handle, decisions)
        progress = None
        if call.progress_token is not None:
            progress = Progress(call.progress_token, call.sink, call.id, call.client.loop, handle.id)
        viewer = self.make_viewer(
            call, handle, presentation_of(handle).asked_for(self._asked.report()), progress, after=state.shown_to
        )
        viewer.answered_before = unknown
        viewer.following.message_id, viewer.following.leads = state.message_id, True
        viewer.following.follow_turn(state.turn)
        call.when_cancelled(lambda: handle.tasks.run(cancel_turn(viewer)))
        await viewer.recall_questions(state.shown_to)
        await viewer.following.go_live_from_cursor()
        if call.answered:
            return LATER
        if not handle.facts.runs_here:
            with suppress(ConversationBusy, NotAllowed):
                await handle.submit(Resume())
        viewer.following.put_open_questions()
        return LATER

    def _decisions(self, handle: Handle, client: str) -> list[Decide]:
        """The decisions from the answers. Raises `InvalidParams` if one cannot be understood; then none of them counts."""
        decisions: list[Decide] = []
        for key, answer in self._asked.input_responses.items():
            name = read_question_name(key)
            asked = None if name is None else find_asked(handle, name)
            if asked is None:
                continue  # answered elsewhere meanwhile, or never asked
            check_answer(asked.question, answer)
            decisions.append(decision_on(asked, Response(key, answer), client))
        return decisions

    def _read(self, text: str) -> _State:
        body = self._seal().open(text)
        try:
            state = None if body is None else _decode(body)
        except msgspec.MsgspecError:
            state = None
        ours = state is not None and state.principal == self._principal and state.digest == self._asked.digest()
        if state is None or not ours or state.expires < time.time():
            raise InvalidParams("`requestState` is not valid for this call")
        return state

    def _seal(self) -> IdSeal:
        return IdSeal(state_dir(self._engine.home), b"request state")


async def _decide(handle: Handle, decisions: Sequence[Decide]) -> frozenset[str]:
    """Pass the decisions on, and wait until it is known what becomes of them: until then their questions look open. Returns the
    questions for which another process has not said so in time.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + PATIENCE_SECONDS
    unknown: set[str] = set()
    for decision in decisions:
        with suppress(AgentError):  # the question stays open and is asked again
            if await handle.decide(decision, Durable(), max(0.0, give_up - loop.time())) == "requested":
                unknown.add(decision.call_id)
    return frozenset(unknown)


class RoundViewer(CallViewer):
    """Puts questions into the answer of its call."""

    def __init__(self, rounds: Rounds, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._rounds = rounds
        self._gathering = False
        self.answered_before: frozenset[str] = frozenset()  # by this call: its answers lie in the inbox of another process

    async def recall_questions(self, shown_to: int) -> None:
        """Recall questions of earlier rounds: if the rules refuse one, the caller is told."""
        after = max(0, shown_to - READ_BACK)
        for entry in await self.handle.read(after, shown_to - after):
            if isinstance(entry.record, Question):
                self._questions[entry.record.call_id] = entry.record

    def question(self, question: Question, turn: str) -> None:
        if self.handle.open_question(question.call_id) != question:
            self._questions[question.call_id] = question
            return
        if not self.following.can_answer:
            super().question(question, turn)
            return
        self._questions[question.call_id] = question
        if not self._gathering:
            self._gathering = True
            self.call.client.loop.call_later(GATHER_SECONDS, self._ask, turn)

    def _ask(self, turn: str) -> None:
        self._gathering = False
        known: Mapping[str, Question] = self.handle.facts.questions
        questions = [question for call_id, question in known.items() if call_id not in self.answered_before]
        if self.call.answered or not questions:
            return
        if self._rounds.number >= MOST_ROUNDS:
            self.answer_unfinished()
            return
        requests = {
            question_name(self.handle.id, turn, question, self.handle.asked_at(question.call_id)): {
                "method": "elicitation/create",
                "params": {"mode": "form", **question_params(question, self._peer, self.handle), "threadId": self.handle.id},
            }
            for question in questions
        }
        state = self._rounds.state(self)
        self.answer({"resultType": "input_required", "inputRequests": requests, "requestState": state})
