"""An editor and the sessions that it has open.

In each session it is shown what happens, gets that session's questions (`session/request_permission`), and has its prompts answered
when their turns end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from understudy.config.model import Config
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import merge
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError, ConfigError, UnknownConversation, report_bug
from understudy.protocol.callers import Caller
from understudy.protocol.choices import Decision
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.jsonrpc import RequestId, Response, notification_line
from understudy.protocol.ops import Cancel
from understudy.protocol.records import (
    Answers,
    BudgetAsked,
    HookApprovalAsked,
    Overrides,
    Question,
    TurnEnded,
    UserInputAsked,
    UserMessage,
)
from understudy.servers.acp.commands import tell_commands
from understudy.servers.acp.content import Json
from understudy.servers.acp.editor_requests import EditorRequests, EditorTexts
from understudy.servers.acp.projection import Projection
from understudy.servers.acp.settings import config_options, mode_of
from understudy.servers.acp.user_input import OneByOne, ask_by_form, read_input
from understudy.servers.failures import ProtocolError
from understudy.servers.questions import NOT_READABLE, AskedQuestions, OnAnswer, unusable
from understudy.servers.sink import Sink
from understudy.servers.stdio.line_door import Histories

if TYPE_CHECKING:
    from understudy.servers.acp.user_input import OneByOne


class Shown(Protocol):
    def __call__(self, seq: int, callback: Callable[[], None]) -> None: ...


class RunningPrompt(QuietViewer):
    """`done` holds the end of the turn once the client has been shown it; None: the prompt was given up."""

    def __init__(self, request_id: RequestId, when_shown: Shown) -> None:
        self.request_id = request_id
        self.message_id = ""
        self.sent = False
        self.cancelled = False
        self.done: asyncio.Future[TurnEnded | None] = asyncio.get_running_loop().create_future()
        self.when_shown = when_shown
        self._seq = 0

    def entry(self, live: LiveEntry) -> None:
        self._seq = live.entry.seq

    def ended(self, ended: TurnEnded) -> None:
        self.when_shown(self._seq, lambda: self._settle(ended))

    def failed(self, error: AgentError) -> None:
        if self.done.done():
            return
        if self.cancelled:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # marks the exception as seen: nobody may be waiting when the server ends

    def stop(self) -> None:
        self.cancelled = True
        self._settle(None)

    def _settle(self, ended: TurnEnded | None) -> None:
        if not self.done.done():
            self.done.set_result(ended)


_ALLOW = {"optionId": "approved", "name": "Allow", "kind": "allow_once"}
_ALWAYS = {"optionId": "approved_for_session", "name": "Allow for this session", "kind": "allow_always"}
_REJECT = {"optionId": "denied", "name": "Reject", "kind": "reject_once"}
_STOP = {"optionId": "abort", "name": "Reject and stop", "kind": "reject_once"}
_DECISIONS: dict[str, Decision] = {
    "approved": "approved",
    "approved_for_session": "approved_for_session",
    "denied": "denied",
    "abort": "abort",
}


def options(question: Question) -> list[Json]:
    if isinstance(question, HookApprovalAsked):
        return [_ALLOW, _REJECT, _STOP]
    return [_ALLOW, _REJECT] if isinstance(question, BudgetAsked) else [_ALLOW, _ALWAYS, _REJECT, _STOP]


def read_answer(response: Response) -> tuple[Decision, str]:
    """A person's decision and its source. An answer that cannot be understood is a no."""
    if (refusal := unusable(response)) is not None:
        return refusal
    match response.result:
        case {"outcome": {"outcome": "selected", "optionId": str(word)}} if word in _DECISIONS:
            return _DECISIONS[word], CLIENT
        case {"outcome": {"outcome": "cancelled"}}:
            return "abort", CLIENT
        case _:
            return "denied", NOT_READABLE


logger = logging.getLogger(__name__)

NOT_FOUND = -32002
OUTPUT_SECONDS = 0.2  # between two updates about the output of commands, each with the whole output
PATIENCE_SECONDS = 10.0  # for a turn that was told to end


def update_line(session_id: str, update: Json) -> bytes:
    return notification_line("session/update", {"sessionId": session_id, "update": update})


def _read_input(asked: UserInputAsked, response: Response) -> tuple[Decision, str, Answers]:
    return read_input(asked, response)


class EditorSession:
    """Called by the following (`entry`, `delta` and so on), in order."""

    def __init__(self, client: "EditorPeer", handle: Handle, projection: Projection, after: int, *, hides_reasoning: bool) -> None:
        self.handle = handle
        self.projection = projection
        self.chosen: Overrides | None = None  # by the client, for the next prompt
        self.over = False
        self.prompts: list[RunningPrompt] = []  # not answered yet
        self.sending = asyncio.Lock()  # sends prompts in order of arrival
        self.following = handle.follow(self, after=after, outlet=client.sink, hides_reasoning=hides_reasoning)
        self._client = client
        self._sink = client.sink
        self._held: list[bytes] = []
        self._holding = False
        self._asked = AskedQuestions(handle, read_answer, self._withdraw, read_input=_read_input)
        self._one_by_one: dict[RequestId, OneByOne] = {}  # by the request that asked the first of its questions
        self._when_shown: list[tuple[int, Callable[[], None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._mode = ""
        self._texts: EditorTexts | None = None
        self._take_back: Callable[[], None] = lambda: None

    @property
    def can_answer(self) -> bool:
        return not self._sink.closed

    # -- beginning and ending

    def go_live(self) -> None:
        """From here on the client is told what happens; messages are held until `release`, so that its answer comes first."""
        self._holding = True
        self._client.sessions[self.handle.id] = self
        self._client.lost.pop(self.handle.id, None)
        self.projection.tools.live = True
        for live in self.following.take_unfinished():
            self.delta(live)
        self.following.go_live()
        self.following.put_open_questions()
        if self._client.gives_texts:
            self._texts = EditorTexts(self._client, self.handle.id, self._send)
            self._take_back = self.handle.unsaved_texts().lend(self._texts)

    def release(self) -> None:
        self._holding = False
        if self._held:
            lines, self._held = b"".join(self._held), []
            self._sink.send(lines, None)
        tell_commands(self)

    def stop(self) -> None:
        """The session is closed: answer whatever waits."""
        self._leave()
        for prompt in tuple(self.prompts):
            prompt.stop()

    def replaces(self, before: "EditorSession") -> None:
        """The session is loaded again while it is open: take over whatever waits there."""
        self.prompts, self.sending, self.chosen = before.prompts, before.sending, before.chosen
        self.projection.own |= before.projection.own
        for prompt in self.prompts:
            prompt.when_shown = self.when_shown
        before._leave()

    def _leave(self) -> None:
        self.over = True
        self.following.stop()
        self._asked.withdraw_all()
        self._take_back()
        if self._texts is not None:
            self._texts.stop()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._when_shown = self._when_shown, []
        for _, callback in waiting:
            callback()

    # -- messages to the client

    def tell(self, updates: Iterable[Json]) -> None:
        for update in updates:
            self._send(update_line(self.handle.id, update))

    def _send(self, line: bytes) -> None:
        if self._holding:
            self._held.append(line)
        else:
            self._sink.send(line, None)

    def when_shown(self, seq: int, callback: Callable[[], None]) -> None:
        """Call back once everything up to this record has been sent to the client, which may be slow."""
        if self.over or self.following.cursor >= seq:
            callback()
        else:
            self._when_shown.append((seq, callback))

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        entry = live.entry
        self.tell(self.projection.entry(entry))
        if isinstance(entry.record, TurnEnded):
            self._asked.withdraw_all()
        elif isinstance(entry.record, UserMessage) and entry.record.overrides is not None:
            self.tell_settings()
        if self._when_shown:
            due = [callback for seq, callback in self._when_shown if seq <= entry.seq]
            self._when_shown = [(seq, callback) for seq, callback in self._when_shown if seq > entry.seq]
            for callback in due:
                callback()

    def delta(self, live: LiveDelta) -> None:
        self.tell(self.projection.delta(live))
        if self.projection.tools.prints and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(OUTPUT_SECONDS, self._show_output)

    def _show_output(self) -> None:
        self._timer = None
        if not self.over:
            self.tell(self.projection.tools.take_output())

    def question(self, question: Question, turn: str) -> None:
        if self.following.can_answer:
            self._asked.ask(question, turn, lambda on_answer: self._ask(question, on_answer))

    def question_closed(self, call_id: str, turn: str) -> None:
        self._asked.withdraw(call_id, turn)

    def ended(self, ended: TurnEnded) -> None:
        """A session continues after every turn."""

    def failed(self, error: AgentError) -> None:
        logger.warning("nothing more can be shown of session %s: %s", self.handle.id, error)
        for prompt in tuple(self.prompts):
            prompt.failed(error)
        if self._client.sessions.get(self.handle.id) is self:
            del self._client.sessions[self.handle.id]
            if not isinstance(error, UnknownConversation):
                self._client.lost[self.handle.id] = self.chosen
        self.stop()

    # -- questions

    def _ask(self, question: Question, on_answer: OnAnswer) -> RequestId:
        about = self.projection.tools.about_question(question)
        if isinstance(question, UserInputAsked):
            return self._ask_user(question, about, on_answer)
        params: Json = {"toolCall": about, "options": options(question)}
        return self._request("session/request_permission", params, on_answer)

    def _ask_user(self, asked: UserInputAsked, about: Json, on_answer: OnAnswer) -> RequestId:
        if self._client.has_forms:
            return ask_by_form(asked, self.handle.id, about["toolCallId"], self._request, on_answer)
        asking = OneByOne(asked, about, self._request, on_answer)
        request_id = asking.put()
        self._one_by_one[request_id] = asking
        return request_id

    def _request(self, method: str, params: Json, on_answer: OnAnswer) -> RequestId:
        request_id, line = self._client.new_request(method, {"sessionId": self.handle.id, **params}, on_answer)
        self._send(line)
        return request_id

    def _withdraw(self, request_id: RequestId) -> None:
        asking = self._one_by_one.pop(request_id, None)
        request_id = request_id if asking is None else asking.open
        self._send(self._client.withdraw(request_id))

    # -- settings

    def choose(self, chosen: Overrides) -> Config:
        """Choose settings from the next prompt on, on top of earlier choices. If it raises `ConfigError`, nothing is chosen."""
        merged = chosen if self.chosen is None else merge(self.chosen, chosen)
        config = self._client.engine.configure(self.handle.with_changes(merged))
        self.chosen = merged
        return config

    def config(self) -> Config:
        """The configuration of the next prompt. Raises `ConfigError`."""
        if self.chosen is None:
            return self.handle.setup().config
        return self._client.engine.configure(self.handle.with_changes(self.chosen))

    def note_settings(self, config: Config) -> bool:
        """Note the settings that the client is told. True if its mode has changed."""
        before, self._mode = self._mode, mode_of(config)
        return before != self._mode

    def tell_mode(self, config: Config) -> None:
        if self.note_settings(config):
            self.tell([{"sessionUpdate": "current_mode_update", "currentModeId": self._mode}])

    def tell_settings(self) -> None:
        try:
            config = self.config()
        except ConfigError:
            return
        self.tell_mode(config)
        self.tell([{"sessionUpdate": "config_option_update", "configOptions": config_options(config)}])

    # -- ending a turn

    async def cancel(self) -> None:
        """Answer every open prompt with `cancelled`, whatever becomes of its turn. Later prompts are not affected."""
        for prompt in self.prompts:
            prompt.cancelled = True
        prompts = [prompt for prompt in self.prompts if prompt.sent]
        try:
            stopped = await self.handle.interrupt(PATIENCE_SECONDS)
            if stopped.status == "nothing":
                for prompt in prompts:
                    if not prompt.done.done():  # it waits for the end of another turn
                        await self.handle.submit(Cancel(prompt.message_id))
            waiting = [prompt.done for prompt in prompts if not prompt.done.done()]
            if waiting and stopped.status != "requested":
                await asyncio.wait(waiting, timeout=PATIENCE_SECONDS)
        except AgentError as error:
            logger.warning("session %s could not be interrupted: %s", self.handle.id, error)
        except Exception as error:
            report_bug(logger, error, "in cancelling %s", self.handle.id)
        for prompt in prompts:
            prompt.stop()

    async def cancel_one(self, prompt: RunningPrompt) -> None:
        """Answer the prompt with `cancelled`. A turn that it began ends; a turn that it joined, or that began since, continues."""
        prompt.cancelled = True
        if not prompt.sent:
            return  # the code that sends it checks `cancelled`
        try:
            accepted = await self.handle.submit(Cancel(prompt.message_id))
            if accepted.effective and not prompt.done.done():
                await asyncio.wait([prompt.done], timeout=PATIENCE_SECONDS)
        except AgentError as error:
            logger.warning("a prompt of session %s could not be cancelled: %s", self.handle.id, error)
        except Exception as error:
            report_bug(logger, error, "in cancelling a prompt of %s", self.handle.id)
        prompt.stop()


class EditorPeer(EditorRequests):
    """One editor and its sessions."""

    def __init__(self, engine: Engine, caller: Caller, sink: Sink) -> None:
        super().__init__(sink)
        self.engine = engine
        self.caller = caller  # in whose name it speaks
        self.histories = Histories(sink)
        self.initialized = False
        self.gives_texts = False  # it has said that it answers fs/read_text_file
        self.has_forms = False  # it has said that it answers elicitation/create
        self.sessions: dict[ConversationId, EditorSession] = {}
        self.lost: dict[ConversationId, Overrides | None] = {}  # sessions that could not be shown any more, with their choices
        self.reopening = asyncio.Lock()

    async def find(self, session_id: str) -> Handle:
        """Raises `ProtocolError` if there is none."""
        try:
            return await self.engine.find(self.caller, read_session_id(session_id))
        except UnknownConversation:
            raise ProtocolError(NOT_FOUND, f"there is no session {session_id}") from None

    def session(self, session_id: str) -> EditorSession:
        """Raises `ProtocolError` for a session that was neither made nor loaded here."""
        session = self.sessions.get(read_session_id(session_id))
        if session is None or session.over:
            raise ProtocolError(NOT_FOUND, f"session {session_id} is not open here: call session/load first")
        return session

    def close(self) -> None:
        for session in tuple(self.sessions.values()):
            session.stop()
        self.sessions.clear()
        self.lost.clear()
        self.forget_all()


def read_session_id(text: str) -> ConversationId:
    try:
        return ConversationId(read_uuid(text))
    except ValueError:
        raise ProtocolError(NOT_FOUND, f"there is no session {text[:100]!r}") from None
