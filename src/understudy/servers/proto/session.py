"""`proto` for one client on standard input and output: submissions in, events out, about one conversation at a time."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import merge
from understudy.engine.turn.approvals import CLIENT
from understudy.engine.viewers.following import QuietViewer
from understudy.errors import AgentError, BadRequest, ConversationBusy, report_bug
from understudy.protocol import ops
from understudy.protocol.callers import LOCAL, Caller, by_door
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.items import Message
from understudy.protocol.records import Opened, Overrides, Question
from understudy.servers import pipes
from understudy.servers.mcp.asking import read_decision
from understudy.servers.mcp.conversation_arguments import read_content
from understudy.servers.pipes import MOST_BYTES, OverlongLine, PipeSink
from understudy.servers.process.process import Ending, hide_memory, run_server
from understudy.servers.proto import submissions as sent
from understudy.servers.sink import Sink
from understudy.servers.wire_events.presentation import presentation_of

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class ProtoSession:
    """Takes submissions one after the other. If one fails, an `error` event with its id says so."""

    def __init__(self, engine: Engine, caller: Caller, sink: Sink, ending: Ending) -> None:
        self._engine = engine
        self._caller = caller
        self._sink = sink
        self._ending = ending
        self._viewer: _Viewer | None = None
        self._chosen: Overrides | None = None  # for the next message
        self._busy = False
        self._lines: list[bytes] = []

    async def begin(self, overrides: Overrides) -> None:
        """Begin a new conversation. Raises `AgentError`."""
        self._follow(await self._engine.create(self._caller, overrides))

    def receive(self, line: bytes) -> None:
        self._lines.append(line)
        if not self._busy:
            self._busy = True
            self._engine.tasks.run(self._take_all())

    async def _take_all(self) -> None:
        while self._lines:
            await self._take(self._lines.pop(0))
        self._busy = False

    async def _take(self, line: bytes) -> None:
        submission_id = ""
        try:
            submission = sent.read_submission(line)
            submission_id = submission.id
            await self._carry_out(submission.id, submission.op)
        except sent.NotUnderstood as error:
            self.tell(error.id, {"type": "error", "message": str(error)})
        except AgentError as error:
            self.tell(submission_id, {"type": "error", "message": str(error)})
        except Exception as error:
            self.tell(submission_id, {"type": "error", "message": report_bug(logger, error, "in a submission")})

    def tell(self, submission_id: str, msg: dict[str, object]) -> None:
        self._sink.send(b'{"id":%b,"msg":%b}\n' % (_encode(submission_id), _encode(msg)), None)

    def close(self) -> None:
        if self._viewer is not None:
            self._viewer.stop()

    # -- ops

    async def _carry_out(self, submission_id: str, op: sent.Op) -> None:
        match op:
            case sent.ConfigureSession():
                await self.begin(sent.overrides_of(op) or Overrides())
            case sent.UserInput(items=items):
                await self._send(submission_id, items, None)
            case sent.UserTurn(items=items):
                await self._send(submission_id, items, sent.overrides_of(op))
            case sent.OverrideTurnContext():
                self._choose(sent.overrides_of(op))
            case sent.ExecApproval(id=named, decision=decision) | sent.PatchApproval(id=named, decision=decision):
                await self._decide(named, decision)
            case sent.Decide(call_id=call_id, decision=decision):
                await self._decide(call_id, decision)
            case sent.Interrupt():
                await self._handle.submit(ops.Interrupt())
            case sent.Compact():
                turn = (await self._handle.compact()).turn
                self._following.name(turn, submission_id)
            case sent.Resume(conversation_id=conversation_id):
                await self._resume(conversation_id)
            case sent.Fork(message_id=message_id):
                self._follow(await self._engine.fork(self._caller, self._handle.id, message_id=message_id))
            case sent.Archive(archived=archived):
                await self._handle.submit(ops.Archive(archived))
            case sent.Delete():
                await self._handle.submit(ops.Delete())
            case sent.Shutdown():
                self.tell(submission_id, {"type": "shutdown_complete"})
                self._ending.end()
            case sent.AddToHistory():
                pass
            case sent.GetHistoryEntry(offset=offset, log_id=log_id):
                self.tell(submission_id, {"type": "get_history_entry_response", "offset": offset, "log_id": log_id, "entry": None})
            case sent.ListMcpTools():
                self.tell(submission_id, {"type": "mcp_list_tools_response", "tools": {}})
            case sent.ListCustomPrompts():
                self.tell(submission_id, {"type": "list_custom_prompts_response", "custom_prompts": []})
            case _:
                assert_never(op)

    @property
    def _following(self) -> "_Viewer":
        if self._viewer is None:
            raise BadRequest("there is no conversation: submit `configure_session` or `resume` first")
        return self._viewer

    @property
    def _handle(self) -> Handle:
        return self._following.handle

    def _follow(self, handle: Handle) -> None:
        if self._viewer is not None:
            self._viewer.stop()
        self._chosen = None
        self._viewer = _Viewer(handle, self._sink)
        self._viewer.go_live()

    async def _resume(self, spelled: str) -> None:
        try:
            conversation_id = ConversationId(read_uuid(spelled))
        except ValueError as error:
            raise BadRequest(f"`conversation_id`: {error}") from None
        handle = await self._engine.find(self._caller, conversation_id)
        try:
            await handle.submit(ops.Resume())
        except ConversationBusy:
            pass  # another process runs its turn; it is watched from here
        self._follow(handle)

    def _choose(self, chosen: Overrides | None) -> None:
        if chosen is not None:
            before = self._chosen
            both = chosen if before is None else merge(before, chosen)
            self._engine.configure(self._handle.with_changes(both))  # raises before it is kept
            self._chosen = both

    async def _send(self, submission_id: str, items: list[object], chosen: Overrides | None) -> None:
        handle = self._handle
        content = await read_content(items, handle)
        self._choose(chosen)
        op = handle.message(Message("user", content), self._chosen)
        self._following.expect(op.message.message_id, submission_id)
        self._chosen = None
        await handle.submit(op)

    async def _decide(self, named: str, decision: object) -> None:
        """A question is named by its call id, or by the id of its turn's events."""
        handle = self._handle
        questions = handle.facts.questions
        call_id = named if named in questions else next(iter(questions), None) if self._following.is_running(named) else None
        if call_id is None:
            raise BadRequest(f"no open question {named}; open ones: {', '.join(questions) or 'none'}")
        await handle.submit(ops.Decide(call_id, read_decision(decision), CLIENT, asked_at=handle.asked_at(call_id)))


class _Viewer(QuietViewer):
    """Shows everything that happens in a conversation, from its first record on."""

    can_answer = True

    def __init__(self, handle: Handle, sink: Sink) -> None:
        self.handle = handle
        self._sink = sink
        presentation = presentation_of(handle)
        self._codec = presentation.codec(handle)
        self._names: dict[str, str] = {}  # the submission that began each turn
        self._expected: dict[str, str] = {}  # the submission of each message, until its turn is known
        self.following = handle.follow(self, after=0, outlet=sink, hides_reasoning=presentation.hides_reasoning)

    def go_live(self) -> None:
        self.following.go_live()

    def stop(self) -> None:
        self.following.stop()

    def expect(self, message_id: str, submission_id: str) -> None:
        """If the message begins a turn, that turn's events carry this id."""
        self._expected[message_id] = submission_id

    def name(self, turn: str | None, submission_id: str) -> None:
        if turn:
            self._names[turn] = submission_id

    def is_running(self, submission_id: str) -> bool:
        turn = self.handle.running_turn
        return turn is not None and self._name_of(turn) == submission_id

    def _name_of(self, turn: str) -> str:
        """Turns that others began keep their number."""
        known = self._names.get(turn)
        if known is None:
            message_id = self.handle.message_of_turn(turn)
            known = self._expected.pop(message_id or "", turn)
            self._names[turn] = known
        return known

    # -- called by the following

    def entry(self, live: LiveEntry) -> None:
        turn = live.entry.turn
        name = _encode(("0" if self._codec.plain_method else "") if isinstance(live.entry.record, Opened) else self._name_of(turn))
        for event in self._codec.events(live):
            self._sink.send(b'{"id":%b,"msg":%b}\n' % (name, event.msg), None)

    def delta(self, live: LiveDelta) -> None:
        self._sink.send(b'{"id":%b,"msg":%b}\n' % (_encode(self._name_of(live.turn)), self._codec.delta(live).msg), None)

    def question(self, question: Question, turn: str) -> None:
        """The question was already sent as an event."""

    def failed(self, error: AgentError) -> None:
        line = b'{"id":"","msg":%b}\n' % _encode({"type": "error", "message": f"nothing more can be shown: {error}"})
        self._sink.send(line, None)


LAST_WORDS_SECONDS = 0.3
TOO_LONG = f"a line may have at most {MOST_BYTES} bytes"


def run(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends, `shutdown` is submitted or a signal comes. Returns the exit code."""
    hide_memory()
    return run_server("submissions and events on standard input and output", partial(_serve, cli))


async def _serve(cli: Sequence[tuple[str, Any]], ending: Ending) -> int:
    engine = Engine(cli=cli)
    sink = PipeSink(asyncio.get_running_loop())
    session = ProtoSession(engine, by_door(LOCAL, "proto"), sink, ending)
    await pipes.open_output(sink, ending)
    try:
        await session.begin(Overrides())
    except AgentError as error:  # a later `configure_session` may succeed
        session.tell("0", {"type": "error", "message": str(error)})

    def receive(line: bytes) -> None:
        if isinstance(line, OverlongLine):
            session.tell("", {"type": "error", "message": TOO_LONG})
        else:
            session.receive(line)

    await pipes.open_input(receive, sink, ending)
    code = await ending.wait()
    await engine.close()
    session.close()
    sink.flush()
    await sink.taken(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code
