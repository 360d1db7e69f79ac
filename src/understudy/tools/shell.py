"""`shell`: a command, judged, perhaps asked about, run contained, and told to the model with what it printed."""

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Annotated, NamedTuple

import msgspec

from understudy.errors import SandboxError, ToolError
from understudy.places.masks import MaskWatch
from understudy.policy.approvals import approval_key, environment_digest, ground_digest
from understudy.policy.decide import CommandFacts, decide_command, escalation_after_denial
from understudy.policy.environment import with_markers
from understudy.policy.search_path import planted_programs
from understudy.policy.steering import steering_variable
from understudy.policy.verdicts import Verdict
from understudy.policy.words import Words, simple_commands
from understudy.protocol.choices import OutputStream
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.items import FunctionCall, FunctionCallOutput
from understudy.protocol.records import CommandApprovalAsked, CommandEnded, CommandStarted, Noticed, OutputDelta, ToolAnswered
from understudy.sandbox.denial import hint, likely_denied, remark
from understudy.sandbox.spec import Command, CommandResult, Containment
from understudy.tools.apply_patch import apply_patch
from understudy.tools.arguments import read_arguments
from understudy.tools.ground import Identity, folders_of_ground, identities, identity, standing
from understudy.tools.output import DELTA_BYTES, EVENT_BYTES, LIVE_BYTES, ForModel, HeadTail, model_text
from understudy.tools.patch.invocation import PatchInvocation, PatchMistake, recognise
from understudy.tools.still import held
from understudy.tools.tool import ToolContext, ToolOutput, ToolSettings

_LONGEST_MS = 10**15  # more than any limit; a float cannot hold just any number
KILLED = 137  # what a shell says of a command ended by SIGKILL
CHANGED = "exec command rejected: its folder or a script that it names has changed since the user was asked"
MAY_NOT_LEAVE = (
    "exec command rejected: a command of another conversation is running that could change what this one stands on (its script,"
    " program or folder) while it runs outside the sandbox. Try again when that has ended, or run it in the sandbox"
)
MAY_NOT_CHANGE = (
    "exec command rejected: a command that the user approved is running outside the sandbox, and this one could change what it"
    " stands on. Try again when that has ended"
)
WAIT_TO_LEAVE, WAIT_TO_CHANGE = 10.0, 60.0  # seconds
LIVE_MARK = b"\n[... more output follows; it is not shown live ...]\n"


class ShellParams(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    workdir: str | None = None
    timeout: Annotated[int, msgspec.Meta(ge=0)] | None = None  # milliseconds
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    with_escalated_permissions: bool | None = None
    justification: str | None = None


class Shell:
    name = "shell"

    async def run(self, call: FunctionCall, context: ToolContext) -> ToolOutput:
        params = read_arguments(call.arguments, ShellParams, "ShellToolCallParams")
        if any("\0" in word for word in (*params.command, params.workdir or "")):
            return ToolOutput("execution error: no program can be given a NUL character", success=False)
        if (complaint := context.settings.places.complaint()) is not None:
            return ToolOutput(f"execution error: the command was not run: {complaint}", success=False)
        cwd = _place(context.settings, params.workdir)
        if not is_unicode(cwd):
            return ToolOutput(f"workdir leads to {visible(cwd)}, whose name is not valid UTF-8: use another folder", success=False)
        if not any(params.command[:1]):
            return await _nothing_to_run(call.call_id, cwd, context)
        match recognise(params.command, cwd):
            case PatchInvocation(body=body, base=base):
                return await apply_patch(call.call_id, body, base, context)
            case PatchMistake(reason=reason):
                return ToolOutput(f"error: {reason}", success=False)
            case None:
                return await _Execution(call.call_id, params, cwd, context).run()


def _place(settings: ToolSettings, workdir: str | None) -> str:
    """Where it runs. A folder that the model names is judged, asked about and used at the place that it really is."""
    cwd = settings.cwd
    return os.path.realpath(os.path.join(settings.places.real(cwd), workdir)) if workdir else cwd


async def _nothing_to_run(call_id: str, cwd: str, context: ToolContext) -> ToolOutput:
    reason = "command args are empty"
    context.record(CommandStarted(call_id, (), cwd, contained=False), CommandEnded(call_id, "", reason, -1, 0.0))
    return ToolOutput(f"execution error: {reason}", success=False)


class _Foreign(NamedTuple):
    """What of the project could run under the name of another program. Only `untrusted` spares questions by a program's name."""

    programs: frozenset[str] = frozenset()
    variable: str | None = None


def _foreign(settings: ToolSettings, argv: Words, cwd: str) -> _Foreign:
    if settings.approval_policy != "untrusted":
        return _Foreign()
    called = [words[0] for words in simple_commands(argv) or ()]
    return _Foreign(
        planted_programs(settings.environment.get("PATH"), cwd, settings.roots, called),
        steering_variable(settings.environment, cwd, settings.roots),
    )


class _Execution:
    """One command on its way: decided, asked about, run, and perhaps run again outside the sandbox."""

    def __init__(self, call_id: str, params: ShellParams, cwd: str, context: ToolContext) -> None:
        settings = context.settings
        self._call_id = call_id
        self._argv = params.command
        self._cwd = cwd
        self._context = context
        self._environment = settings.environment
        milliseconds = params.timeout if params.timeout is not None else params.timeout_ms
        self._seconds = settings.default_timeout if milliseconds is None else min(milliseconds, _LONGEST_MS) / 1000
        foreign = _foreign(settings, self._argv, cwd)
        # Needed where it may leave the sandbox unasked; looking takes longer than to decide.
        self._judged = self._standing() if settings.containment is None else ""
        self._verdict = decide_command(
            CommandFacts(
                self._argv,
                cwd,
                settings.roots,
                settings.approval_policy,
                settings.sandbox_mode,
                escalated=bool(params.with_escalated_permissions),
                justification=params.justification,
                approved=context.is_approved(self._judge),
                rules=settings.rules,
                planted=foreign.programs,
                steered_by=foreign.variable,
                home=settings.home,
            )
        )

    async def run(self) -> ToolOutput:
        verdict = self._verdict
        if verdict.action == "deny":
            return ToolOutput(f"exec command rejected: {verdict.reason}", success=False)
        resumed = self._context.open_question(self._call_id)
        if isinstance(resumed, CommandApprovalAsked) and resumed.retries:  # it has run contained, before a restart
            return await self._ask_to_retry(None)
        if verdict.action == "ask":
            note = None if verdict.rule in ("untrusted", "escalation") else verdict.reason
            refusal = await self._ask(verdict.justification, retries=False, note=note)
            if refusal is not None:
                return refusal
        finished = await self._execute(self._containment(verdict))
        if finished.denied and (reason := escalation_after_denial(self._context.settings.approval_policy)) is not None:
            self._context.record(Noticed(finished.failure()))
            return await self._ask_to_retry(finished, reason)
        return finished.output()

    def _containment(self, verdict: Verdict) -> Containment | None:
        containment = self._context.settings.containment
        if not verdict.contained or containment is None:
            return None
        return containment if verdict.network is None else replace(containment, network=verdict.network)

    async def _ask(self, reason: str | None, *, retries: bool, note: str | None = None) -> ToolOutput | None:
        """None when the command may run."""
        self._judged = self._standing()
        full_access = self._context.settings.containment is None
        key = self._key(self._judged)
        ground = ground_digest(self._judged)
        question = CommandApprovalAsked(self._call_id, self._argv, self._cwd, reason, key, retries, note, full_access, ground)
        answer = await self._context.ask(question)
        if answer.decision == "denied":
            return ToolOutput(answer.refusal("exec command"), success=False)
        if self._standing() != self._judged:
            return ToolOutput(CHANGED, success=False)
        return None

    def _judge(self) -> str:
        self._judged = self._judged or self._standing()
        return self._key(self._judged)

    def _standing(self) -> str:
        return standing(self._argv, self._cwd, self._environment.get("PATH", ""))

    def _key(self, stands_on: str) -> str:
        mode = self._context.settings.sandbox_mode
        return approval_key(self._argv, self._cwd, environment_digest(self._environment), mode, stands_on)

    async def _ask_to_retry(self, before: "_Finished | None", reason: str | None = None) -> ToolOutput:
        refusal = await self._ask(reason, retries=True)
        if refusal is not None:
            return refusal if before is None else ToolOutput(f"{refusal.text}\n{before.output().text}", success=False)
        self._context.record(Noticed("retrying command without sandbox"))
        return (await self._execute(None)).output()

    async def _execute(self, containment: Containment | None) -> "_Finished":
        """Raises `ToolError` where it may not begin: nothing has run then."""
        async with self._held_still(containment):
            if self._is_judged(containment) and self._standing() != self._judged:
                raise ToolError(CHANGED)
            return await self._run(containment)

    def _is_judged(self, containment: Containment | None) -> bool:
        """Whether it leaves the sandbox for what it is. Where the mode has no sandbox and nothing is asked, it may be anything."""
        return containment is None and self._verdict.rule != "full-access"

    def _held_still(self, containment: Containment | None) -> AbstractAsyncContextManager[None]:
        state = self._context.settings.state
        if containment is not None:
            roots = containment.writable_roots if containment.mode == "workspace-write" else ()
            return held(state, identities(roots), alone=False, seconds=WAIT_TO_CHANGE, otherwise=MAY_NOT_CHANGE)
        ground = frozenset[Identity]()
        if self._is_judged(containment):
            ground = folders_of_ground(self._argv, self._cwd, self._environment.get("PATH", ""))
        return held(state, ground, alone=True, seconds=WAIT_TO_LEAVE, otherwise=MAY_NOT_LEAVE)

    async def _cleared(self) -> None:
        """The intent is on disk; and everything is still as it was judged."""
        await self._context.committed()
        if self._standing() != self._judged:
            raise ToolError(CHANGED)

    async def _run(self, containment: Containment | None) -> "_Finished":
        context = self._context
        if containment is not None and containment.private_tmp is not None:
            os.makedirs(containment.private_tmp, mode=0o700, exist_ok=True)
        context.record(CommandStarted(self._call_id, self._argv, self._cwd, contained=containment is not None))
        watch = context.settings.places.watch_masks() if containment is not None else None
        capture = _Capture(self._call_id, context, watch)
        environment = with_markers(
            self._environment, contained=containment is not None, network=containment.network if containment else "on"
        )
        judged = self._is_judged(containment)
        clearance = self._cleared if judged else context.committed
        folder = identity(self._cwd) if judged else None
        command = Command(self._argv, self._cwd, environment, self._seconds, containment, clearance, folder)
        started = asyncio.get_running_loop().time()
        try:
            result = await context.sandbox.run(command, capture.feed)
            capture.check()
        except asyncio.CancelledError:
            seconds = asyncio.get_running_loop().time() - started
            context.record(CommandEnded(self._call_id, capture.stdout.text(), capture.stderr.text(), KILLED, seconds))
            text = model_text(_with_line(capture.merged.text(), "interrupted by the user"), KILLED, seconds)
            context.record(ToolAnswered(FunctionCallOutput(self._call_id, text), success=False))
            raise
        except (SandboxError, ToolError) as error:
            context.record(CommandEnded(self._call_id, "", str(error), -1, 0.0))
            raise
        may_ask = context.settings.approval_policy == "on-request"  # the only policy under which the model can ask to leave
        finished = _Finished(result, capture, self._seconds, containment, may_ask=may_ask)
        context.record(finished.record(self._call_id))
        return finished


class _Capture:
    """Sends output on as it comes, and keeps what people and the model are given at the end."""

    def __init__(self, call_id: str, context: ToolContext, watch: MaskWatch | None) -> None:
        """`watch`: masked paths that the command might come to see."""
        self._watch = watch
        self.stdout, self.stderr, self.merged = HeadTail(EVENT_BYTES), HeadTail(EVENT_BYTES), ForModel()
        self._call_id = call_id
        self._context = context
        self._live = 0

    def check(self) -> None:
        """Raises `SandboxError` where the command may have seen what is masked."""
        if self._watch is not None and (path := self._watch.moved()) is not None:
            raise SandboxError(f"{path} is masked and was replaced while the command ran: what it printed since is withheld")

    def feed(self, stream: OutputStream, chunk: bytes) -> None:
        self.check()
        (self.stdout if stream == "stdout" else self.stderr).feed(chunk)
        self.merged.feed(chunk)
        if self._live > LIVE_BYTES:
            return
        for start in range(0, len(chunk), DELTA_BYTES):
            piece = chunk[start : start + DELTA_BYTES]
            self._live += len(piece)
            if self._live > LIVE_BYTES:
                self._context.emit(OutputDelta(self._call_id, stream, LIVE_MARK))
                return
            self._context.emit(OutputDelta(self._call_id, stream, piece))


class _Finished:
    def __init__(
        self, result: CommandResult, capture: _Capture, seconds: float, containment: Containment | None, *, may_ask: bool
    ) -> None:
        self._result = result
        self._may_ask = may_ask
        self._capture = capture
        cap = containment.limits.seconds if containment is not None else None
        self._limit = min(seconds, cap) if cap else seconds
        self._containment = containment
        self._printed = f"{capture.stdout.text()}{capture.stderr.text()}"
        self.denied = likely_denied(result, self._printed, containment)

    def record(self, call_id: str) -> CommandEnded:
        result = self._result
        failed_to_start = result.spawn_error or result.setup_error
        if failed_to_start is not None:
            return CommandEnded(call_id, "", failed_to_start, -1 if result.spawn_error else result.exit_code, result.duration)
        return CommandEnded(
            call_id,
            self._capture.stdout.text(),
            self._stderr(),
            result.exit_code,
            result.duration,
            timed_out=result.timed_out,
            denied=self.denied,
        )

    def _stderr(self) -> str:
        text, told = self._capture.stderr.text(), remark(self._result)
        return text if told is None else _with_line(text, told)

    def failure(self) -> str:
        stdout, stderr = self._capture.stdout.text(), self._capture.stderr.text()
        return (
            f"Execution failed: sandbox denied exec error, exit code: {self._result.exit_code}, stdout: {stdout}, stderr: {stderr}"
        )

    def output(self) -> ToolOutput:
        result = self._result
        if result.spawn_error is not None:
            return ToolOutput(f"execution error: {result.spawn_error}", success=False)
        if result.setup_error is not None:
            return ToolOutput(f"execution error: the command was not run: {result.setup_error}", success=False)
        text = self._capture.merged.text()
        late = f"command timed out after {round(self._limit * 1000)} milliseconds" if result.timed_out else None
        refused = hint(result, self._printed, self._containment, may_ask=self._may_ask)
        for line in (late, remark(result), refused):
            text = text if line is None else _with_line(text, line)
        return ToolOutput(model_text(text, result.exit_code, result.duration), success=result.exit_code == 0)


def _with_line(text: str, line: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n"
