"""Commands that may outlive their call: judged, asked about, locked and contained like all others, and typed at later."""

import asyncio
import zlib

import msgspec

from understudy.errors import ToolError
from understudy.places.masks import MaskWatch
from understudy.protocol.choices import OutputStream
from understudy.protocol.items import FunctionCallOutput
from understudy.protocol.records import CommandApprovalAsked, CommandEnded, CommandStarted, InputWritten, ToolAnswered
from understudy.sandbox.control import Control
from understudy.sandbox.spec import Containment
from understudy.text import quote_command
from understudy.tools.acts.command_output import Capture, with_line
from understudy.tools.acts.commands import INTERRUPTED, KILLED, CommandOutcome, Execution, run_command
from understudy.tools.calls import CommandRequest, InputRequest, SessionRequest, ToolOutput
from understudy.tools.host import PLANS, ToolHost
from understudy.tools.session import DEFAULT_TOKENS, Session, Unread

_STOP = "\x03"
_KEYS = frozenset("\x03\x04\x1a\x1c")  # Ctrl-C, -D, -Z and -\: they end or pause a program, and give it no input
_ON_TERMINAL = {"TERM": "xterm"}
_UNLESS_CHOSEN = {"PAGER": "cat", "GIT_PAGER": "cat", "NO_COLOR": "1"}  # otherwise `git log` would wait for somebody to turn pages

NO_TERMINAL = (
    "write_stdin failed: the session has no terminal, so nothing can be typed there: start it with `tty` for that. Only \\u0003,"
    " which stops it, and an empty text, which waits for output, mean something to it"
)
NOT_READ = "write_stdin failed: the program does not read what was typed before. Wait, or stop it with \\u0003"
MORE_THAN_NOW = (
    "write_stdin rejected: the command began when more was allowed than now, and what is typed there would have that too. Stop it"
    " with \\u0003 and start it again"
)
TOO_LATE = "what was typed came too late: it had ended"


def _most_tokens(host: ToolHost, wanted: int | None) -> int:
    """A call may ask for less than the user allows, but not for more."""
    allowed = DEFAULT_TOKENS if host.settings.output_tokens is None else host.settings.output_tokens
    return allowed if wanted is None else min(wanted, allowed)


async def start_session(host: ToolHost, call_id: str, request: SessionRequest) -> ToolOutput:
    """Raises `ToolError` if it may not begin; then nothing was run."""
    request = msgspec.structs.replace(request, most_tokens=_most_tokens(host, request.most_tokens))
    argv = (request.shell or "bash", "-lc" if request.login else "-c", request.script)
    wanted = CommandRequest(argv, request.workdir, escalated=request.escalated, justification=request.justification)

    def make(call_id: str, wanted: CommandRequest, cwd: str, host: ToolHost, judged: str) -> Execution:
        return _SessionExecution(call_id, wanted, cwd, host, judged, request)

    return await run_command(host, call_id, wanted, make)


class _SessionExecution(Execution):
    """Runs in a task of its own, which holds the locks on folders until the command's end."""

    _session: Session
    _started: CommandStarted

    def __init__(
        self, call_id: str, wanted: CommandRequest, cwd: str, host: ToolHost, judged: str, request: SessionRequest
    ) -> None:
        given = host.settings.environment
        super().__init__(call_id, wanted, cwd, host, judged, {**_UNLESS_CHOSEN, **given, **_ON_TERMINAL} if request.tty else given)
        self._request = request
        self._seconds = None  # only `sandbox.limits.seconds` limits it

    async def _execute(self, containment: Containment | None) -> CommandOutcome:
        host, request = self._host, self._request
        self._control = Control(terminal=request.tty)
        settings = host.settings
        session = host.sessions.make(self._call_id, self._argv, self._cwd, self._control, settings.most_sessions)
        session.outside = self._is_judged(containment)
        session.bounds = None if containment is None else settings.containment
        self._session = session
        began = asyncio.get_running_loop().time()
        host.sessions.start(session, self._run_to_end(containment))
        try:
            await session.wait(request.yield_seconds, settings.idle_seconds)
        except asyncio.CancelledError:
            session.end_soon(INTERRUPTED)
            await session.ended()
            raise
        session.raise_failure()
        session.known = not session.over
        return _Told(session, asyncio.get_running_loop().time() - began, request.most_tokens)

    def _intent(self, *, contained: bool) -> CommandStarted:
        number = self._session.number
        self._started = CommandStarted(self._call_id, self._argv, self._cwd, contained, number, self._request.tty)
        return self._started

    def _tell_early(self, notice: str) -> None:
        super()._tell_early(notice)
        self._session.early_notice = notice

    def _open_capture(self, watch: MaskWatch | None) -> Capture:
        return _SessionCapture(self._call_id, self._host, watch, self._session)

    def _ending(self, ended: CommandEnded) -> CommandEnded:
        untold = self._session.known and not self._session.waited_for
        why = ended.ended_by if untold else ""  # a call that waits reports the reason itself
        return msgspec.structs.replace(ended, started=self._started, untold=untold, ended_by=why)

    def _record_cut(self, capture: Capture, seconds: float) -> None:
        """We ended the command: the turn was interrupted before the model knew its number, it was idle for too long, or the
        process ends."""
        session, reason = self._session, self._session.ended_by or INTERRUPTED
        why = "" if reason == INTERRUPTED else reason
        ended = CommandEnded(self._call_id, capture.stdout.text(), why and f"{why}\n", KILLED, seconds)
        self._host.record(msgspec.structs.replace(self._ending(ended), ended_by=why))
        if not session.known:
            told = _text_of(session, seconds, f"Process exited with code {KILLED}", self._request.most_tokens, [reason])
            self._host.record(ToolAnswered(FunctionCallOutput(self._call_id, told), success=False))


class _SessionCapture(Capture):
    """Both streams are joined in the order read, because a terminal has only one."""

    def __init__(self, call_id: str, host: ToolHost, watch: MaskWatch | None, session: Session) -> None:
        super().__init__(call_id, host, watch)
        self._session = session

    def feed(self, stream: OutputStream, chunk: bytes) -> None:
        super().feed("stdout", chunk)
        self._session.unread.feed(chunk)


class _Told:
    """What the model is told about a session now. This marks what it printed so far as told."""

    def __init__(self, session: Session, seconds: float, most_tokens: int | None, *, too_late: bool = False) -> None:
        self._session = session
        finished = session.finished
        self.denied = finished is not None and finished.denied
        if finished is not None and (reason := finished.why_unstarted()) is not None:
            self._output = ToolOutput(reason, success=False)
            return
        late = [TOO_LATE] if too_late else []
        if not session.over:
            early, session.early_notice = session.early_notice, ""
            state, remarks, success = f"Process running with session ID {session.number}", [early] if early else [], True
        elif finished is not None:
            state, remarks = f"Process exited with code {finished.exit_code}", finished.remarks()
            success = finished.exit_code == 0
        else:
            state, remarks, success = f"Process exited with code {KILLED}", [session.failure or INTERRUPTED], False
        self._output = ToolOutput(_text_of(session, seconds, state, most_tokens, [*remarks, *late]), success=success)

    def failure(self) -> str:
        return "" if self._session.finished is None else self._session.finished.failure()

    def output(self) -> ToolOutput:
        return self._output


def _text_of(session: Session, seconds: float, state: str, most_tokens: int | None, remarks: list[str]) -> str:
    return _text(session.unread, seconds, state, most_tokens, remarks, more_may_come=not session.over)


def _text(unread: Unread, seconds: float, state: str, most_tokens: int | None, remarks: list[str], *, more_may_come: bool) -> str:
    most = DEFAULT_TOKENS if most_tokens is None else most_tokens
    text, tokens = unread.take(most, more_may_come=more_may_come)
    for line in remarks:
        text = with_line(text, line)
    chunk = zlib.crc32(f"{state} {text}".encode("utf-8", "replace")) & 0xFFFFFF  # equal whenever a recording is replayed
    head = (f"Chunk ID: {chunk:06x}", f"Wall time: {seconds:.4f} seconds", state, f"Original token count: {tokens}")
    return "\n".join((*head, "Output:", text))


async def write_input(host: ToolHost, call_id: str, request: InputRequest) -> ToolOutput:
    """Raises `ToolError` if there is no such session, or it takes no input."""
    request = msgspec.structs.replace(request, most_tokens=_most_tokens(host, request.most_tokens))
    session = host.sessions.find(request.session)
    if session is None:
        if (ended := host.sessions.take_untold(request.session)) is not None:
            return _told_from_log(ended, request)
        raise ToolError(f"write_stdin failed: Unknown process id {request.session}")
    began = asyncio.get_running_loop().time()
    too_late = bool(request.text) and session.over
    if request.text and not session.over:
        refusal = await _ask_about(host, call_id, session, request.text)
        if refusal is not None:
            return refusal
        await _type(host, session, request.text)
    try:
        await session.wait(request.yield_seconds, host.settings.idle_seconds)
    except asyncio.CancelledError:
        state = f"Process running with session ID {session.number}"
        text = _text_of(session, asyncio.get_running_loop().time() - began, state, request.most_tokens, [INTERRUPTED])
        host.record(ToolAnswered(FunctionCallOutput(call_id, text), success=False))
        raise
    if session.over:
        host.sessions.forget(session)
    told = _Told(session, asyncio.get_running_loop().time() - began, request.most_tokens, too_late=too_late)
    return told.output()


def _told_from_log(ended: CommandEnded, request: InputRequest) -> ToolOutput:
    """The command ran in a process that is gone or no longer holds the conversation, so its output comes from its last record."""
    unread = Unread()
    unread.feed(f"{ended.stdout}{ended.stderr}".encode())
    late = [TOO_LATE] if request.text else []
    text = _text(unread, 0.0, f"Process exited with code {ended.exit_code}", request.most_tokens, late, more_may_come=False)
    return ToolOutput(text, success=ended.exit_code == 0)


async def _type(host: ToolHost, session: Session, text: str) -> None:
    control = session.control
    if not control.terminal and text != _STOP:
        raise ToolError(NO_TERMINAL)
    host.record(InputWritten(session.call_id, session.number, text))
    await host.committed()
    if not control.terminal:
        control.stop()
    elif not control.write(text.encode("utf-8", "replace")) and not session.over:
        raise ToolError(NOT_READ)


async def _ask_about(host: ToolHost, call_id: str, session: Session, text: str) -> ToolOutput | None:
    """None if the text may be typed. For a program that reads commands, input is a command, so it is asked about like one."""
    untrusted = host.settings.approval_policy == "untrusted"
    if host.settings.plans and (session.outside or _has_more_than_now(session, host.settings.containment)):
        return ToolOutput(f"write_stdin rejected: the command began before plan mode. {PLANS.capitalize()}", success=False)
    if not session.control.terminal or _KEYS.issuperset(text):
        return None
    if not session.outside and _has_more_than_now(session, host.settings.containment):
        return ToolOutput(MORE_THAN_NOW, success=False)
    if not (session.outside or untrusted):
        return None
    key = f"write_stdin {session.number} {session.call_id}"
    if host.is_approved(lambda: key):
        return None
    argv = ("write_stdin", str(session.number), text)
    runs = quote_command(session.argv)
    uncontained = session.bounds is None
    question = CommandApprovalAsked(call_id, argv, session.cwd, key=key, full_access=uncontained, typed_at=runs)
    answer = await host.ask(question)
    return ToolOutput(answer.refusal("write_stdin"), success=False) if answer.decision == "denied" else None


def _has_more_than_now(session: Session, now: Containment | None) -> bool:
    """A conversation's mode may change while a command runs, but the command keeps the rights with which it began."""
    return now is not None and not (session.bounds is not None and session.bounds.allows_no_more_than(now))
