"""Runs a command: judges it, perhaps asks about it, runs it contained, and tells the model what it printed."""

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from understudy.errors import SandboxError, ToolError
from understudy.places.masks import MaskWatch
from understudy.policy.approvals import approval_key, dependencies_digest, environment_digest
from understudy.policy.decide import CommandFacts, Verdict, decide_command, escalation_after_denial
from understudy.policy.environment import with_markers
from understudy.policy.network_use import network_user
from understudy.policy.steering import planted_programs, steering_variable
from understudy.policy.words import Words, simple_commands
from understudy.protocol.encodable import is_unicode, visible
from understudy.protocol.items import FunctionCallOutput
from understudy.protocol.records import CommandApprovalAsked, CommandEnded, CommandStarted, Noticed, ToolAnswered
from understudy.sandbox.control import Control
from understudy.sandbox.denial import no_network
from understudy.sandbox.spec import Command, Containment
from understudy.tools.acts.command_output import Capture, Finished, with_line
from understudy.tools.acts.dependencies import Identity, beside_the_loop, fingerprint, folders_to_lock, identities, identity, locked
from understudy.tools.acts.patches import apply_patch
from understudy.tools.acts.wildcards import TooWide
from understudy.tools.calls import CommandRequest, ToolOutput
from understudy.tools.host import PLANS, ToolHost, ToolSettings
from understudy.tools.output import model_text
from understudy.tools.patch.invocation import PatchInvocation, PatchMistake, recognise

INTERRUPTED = "interrupted by the user"
KILLED = 137  # as a shell reports a command that SIGKILL has ended
CHANGED = "exec command rejected: its folder or a script that it names has changed since the user was asked"
MAY_NOT_LEAVE = (
    "exec command rejected: a command of another conversation is running that could change what this one depends on (its script,"
    " program or folder) while it runs outside the sandbox. Try again when that has ended, or run it in the sandbox"
)
MAY_NOT_CHANGE = (
    "exec command rejected: a command that the user approved is running outside the sandbox, and this one could change what it"
    " depends on. Try again when that has ended"
)
_TOO_WIDE = "too wide "
WAIT_TO_LEAVE, WAIT_TO_CHANGE = 10.0, 60.0  # seconds


MakeExecution = Callable[[str, CommandRequest, str, ToolHost, str], "Execution"]


async def run_command(host: ToolHost, call_id: str, request: CommandRequest, make: MakeExecution | None = None) -> ToolOutput:
    """Raises `ToolError` if it may not begin; then nothing was run."""
    if any("\0" in word for word in (*request.argv, request.workdir or "")):
        return ToolOutput("execution error: no program can be given a NUL character", success=False)
    if (complaint := host.settings.places.complaint()) is not None:
        return ToolOutput(f"execution error: the command was not run: {complaint}", success=False)
    cwd = _place(host.settings, request.workdir)
    if not is_unicode(cwd):
        return ToolOutput(f"workdir leads to {visible(cwd)}, whose name is not valid UTF-8: use another folder", success=False)
    if not any(request.argv[:1]):
        return await _nothing_to_run(call_id, cwd, host)
    match recognise(request.argv, cwd):
        case PatchInvocation(body=body, base=base):
            return await apply_patch(host, call_id, body, base, places_hold=True)
        case PatchMistake(reason=reason):
            return ToolOutput(f"error: {reason}", success=False)
        case None:
            judged = (
                await beside_the_loop(request.argv, partial(_fingerprint, request.argv, cwd, host)) if _is_compared(host) else ""
            )
            return await (make or Execution)(call_id, request, cwd, host, judged).run()


async def run_for_user(host: ToolHost, call_id: str, argv: Words) -> ToolOutput:
    """Run a command that the user gave with the task: without a question, and contained if the mode has a sandbox."""
    execution = Execution(call_id, CommandRequest(tuple(argv)), host.settings.cwd, host, "")
    return await execution.run_contained()


def _place(settings: ToolSettings, workdir: str | None) -> str:
    """Where the command runs. A folder named by the model is resolved first, and its real path is judged, asked about and used."""
    cwd = settings.cwd
    if not workdir:
        return cwd
    named = os.path.join(settings.places.real(cwd), workdir)
    try:
        return settings.places.act(lambda: os.path.realpath(named))
    except PermissionError:  # we cannot take on the doer's rights, so the command could not either
        return os.path.normpath(named)


async def _nothing_to_run(call_id: str, cwd: str, host: ToolHost) -> ToolOutput:
    reason = "command args are empty"
    host.record(CommandStarted(call_id, (), cwd, contained=False), CommandEnded(call_id, "", reason, -1, 0.0))
    return ToolOutput(f"execution error: {reason}", success=False)


def _is_compared(host: ToolHost) -> bool:
    """Whether we must look at a command's dependencies before it is judged: nothing contains it, or something was approved
    before."""
    compared = host.settings.containment is None

    def key() -> str:
        nonlocal compared
        compared = True
        return ""

    host.is_approved(key)
    return compared


def _fingerprint(argv: Words, cwd: str, host: ToolHost) -> str:
    """Random if there is too much to watch, so that no approval ever matches it again."""
    try:
        return fingerprint(argv, cwd, host.settings.environment.get("PATH", ""))
    except TooWide:
        return f"{_TOO_WIDE}{os.urandom(16).hex()}"


class _Foreign(NamedTuple):
    """Files of the project that could run under another program's name. Matters only for `untrusted`, where a name can avoid a
    question."""

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


class CommandOutcome(Protocol):
    """The result of running a command, as far as its call waits for it."""

    denied: bool  # the sandbox seems to have refused something

    def failure(self) -> str: ...

    def output(self) -> ToolOutput: ...


class Execution:
    """One command: judged, asked about, run, and perhaps run again outside the sandbox."""

    _control: Control | None = None  # lets others type or stop, for commands that may outlive their call

    def __init__(
        self,
        call_id: str,
        request: CommandRequest,
        cwd: str,
        host: ToolHost,
        judged: str,
        environment: dict[str, str] | None = None,
    ) -> None:
        """`judged`: its dependencies as they are now, if they matter before the verdict."""
        settings = host.settings
        self._call_id = call_id
        self._argv = request.argv
        self._cwd = cwd
        self._host = host
        self._environment = settings.environment if environment is None else environment
        self._seconds: float | None = settings.default_timeout if request.seconds is None else request.seconds
        foreign = _foreign(settings, self._argv, cwd)
        self._judged = judged
        self._verdict = decide_command(
            CommandFacts(
                self._argv,
                cwd,
                settings.roots,
                settings.approval_policy,
                settings.sandbox_mode,
                escalated=request.escalated,
                justification=request.justification,
                approved=host.is_approved(lambda: self._key(judged)),
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
        if self._host.settings.plans:
            return await self._only_look(verdict)
        resumed = self._host.open_question(self._call_id)
        if isinstance(resumed, CommandApprovalAsked) and resumed.retries:  # it ran contained before a restart
            return await self._ask_to_retry(None, escalation_after_denial(self._host.settings.approval_policy))
        if verdict.action == "ask":
            note = None if verdict.rule in ("untrusted", "escalation") else verdict.reason
            refusal = await self._ask(verdict.justification, retries=False, note=note)
            if refusal is not None:
                return refusal
        finished = await self._execute(self._containment(verdict))
        if finished.denied and (reason := escalation_after_denial(self._host.settings.approval_policy)) is not None:
            self._host.record(Noticed(finished.failure()))
            return await self._ask_to_retry(finished, reason)
        return finished.output()

    async def run_contained(self) -> ToolOutput:
        return (await self._execute(self._host.settings.containment)).output()

    async def _only_look(self, verdict: Verdict) -> ToolOutput:
        """In plan mode: contained and read-only, or not at all. No question is asked, because a yes would let the command change
        something."""
        if verdict.action == "ask":
            return ToolOutput(f"exec command rejected: {PLANS}", success=False)
        return await self.run_contained()

    def _containment(self, verdict: Verdict) -> Containment | None:
        containment = self._host.settings.containment
        if not verdict.contained or containment is None:
            return None
        return containment if verdict.network is None else replace(containment, network=verdict.network)

    async def _ask(self, reason: str | None, *, retries: bool, note: str | None = None) -> ToolOutput | None:
        """None if the command may run."""
        self._judged = await self._look()
        if self._judged.startswith(_TOO_WIDE):
            raise TooWide
        full_access = self._host.settings.containment is None
        key = self._key(self._judged)
        depends_on = dependencies_digest(self._judged)
        question = CommandApprovalAsked(self._call_id, self._argv, self._cwd, reason, key, retries, note, full_access, depends_on)
        answer = await self._host.ask(question)
        if answer.decision == "denied":
            return ToolOutput(answer.refusal("exec command"), success=False)
        if await self._look() != self._judged:
            return ToolOutput(CHANGED, success=False)
        return None

    async def _look(self) -> str:
        return await beside_the_loop(self._argv, partial(_fingerprint, self._argv, self._cwd, self._host))

    def _key(self, depends_on: str) -> str:
        mode = self._host.settings.sandbox_mode
        return approval_key(self._argv, self._cwd, environment_digest(self._environment), mode, depends_on)

    async def _ask_to_retry(self, before: CommandOutcome | None, reason: str | None = None) -> ToolOutput:
        refusal = await self._ask(reason, retries=True)
        if refusal is not None:
            return refusal if before is None else ToolOutput(f"{refusal.text}\n{before.output().text}", success=False)
        self._host.record(Noticed("retrying command without sandbox"))
        return (await self._execute(None)).output()

    async def _execute(self, containment: Containment | None) -> CommandOutcome:
        return await self._run_to_end(containment)

    async def _run_to_end(self, containment: Containment | None) -> Finished:
        """Raises `ToolError` if it may not begin; then nothing was run."""
        async with await self._locked_folders(containment):
            if self._is_judged(containment) and await self._look() != self._judged:
                raise ToolError(CHANGED)
            return await self._run(containment)

    def _is_judged(self, containment: Containment | None) -> bool:
        """Whether it runs uncontained because of what it is. If the mode has no sandbox and asks nothing, any command may run
        so."""
        return containment is None and self._verdict.rule != "full-access"

    async def _locked_folders(self, containment: Containment | None) -> AbstractAsyncContextManager[None]:
        state = self._host.settings.state
        if containment is not None:
            roots = containment.writable_roots if containment.mode == "workspace-write" else ()
            return locked(state, identities(roots), alone=False, seconds=WAIT_TO_CHANGE, otherwise=MAY_NOT_CHANGE)
        folders = frozenset[Identity]()
        if self._is_judged(containment):
            path = self._environment.get("PATH", "")
            folders = await beside_the_loop(self._argv, partial(folders_to_lock, self._argv, self._cwd, path))
        return locked(state, folders, alone=True, seconds=WAIT_TO_LEAVE, otherwise=MAY_NOT_LEAVE)

    async def _cleared(self) -> None:
        """Wait until the intent is on disk, and check that nothing has changed since the verdict."""
        await self._host.committed()
        if await self._look() != self._judged:
            raise ToolError(CHANGED)

    async def _run(self, containment: Containment | None) -> Finished:
        host = self._host
        if containment is not None and containment.private_tmp is not None:
            os.makedirs(containment.private_tmp, mode=0o700, exist_ok=True)
        user = None if containment is None or containment.network == "on" else network_user(self._argv)
        if containment is not None and user is not None:  # it may wait long for an answer that cannot come
            self._tell_early(no_network(user, containment))
        host.record(self._intent(contained=containment is not None))
        capture = self._open_capture(host.settings.places.watch_masks() if containment is not None else None)
        environment = with_markers(
            self._environment, contained=containment is not None, network=containment.network if containment else "on"
        )
        judged = self._is_judged(containment)
        clearance = self._cleared if judged else host.committed
        folder = identity(self._cwd) if judged else None
        command = Command(self._argv, self._cwd, environment, self._seconds, containment, clearance, folder, self._control)
        command = replace(command, owner=host.owner)
        started = asyncio.get_running_loop().time()
        try:
            result = await host.sandbox.run(command, capture.feed)
            capture.check(result.exposed)
        except asyncio.CancelledError:
            seconds = asyncio.get_running_loop().time() - started
            self._record_cut(capture, seconds)
            raise
        except (SandboxError, ToolError) as error:
            host.record(self._ending(CommandEnded(self._call_id, "", str(error), -1, 0.0)))
            raise
        finally:
            capture.close()
        may_ask = host.settings.approval_policy == "on-request"  # only this policy lets the model ask to leave
        finished = Finished(result, capture, self._seconds, containment, may_ask=may_ask, network_user=user)
        if user is None and finished.lacked_network is not None:
            host.record(Noticed(finished.lacked_network))
        host.record(self._ending(finished.record(self._call_id)))
        return finished

    # -- what differs for a command that may outlive its call

    def _intent(self, *, contained: bool) -> CommandStarted:
        return CommandStarted(self._call_id, self._argv, self._cwd, contained)

    def _tell_early(self, notice: str) -> None:
        """Called before the command begins. Here the model gets the notice with the output."""
        self._host.record(Noticed(notice))

    def _open_capture(self, watch: MaskWatch | None) -> Capture:
        return Capture(self._call_id, self._host, watch)

    def _ending(self, ended: CommandEnded) -> CommandEnded:
        return ended

    def _record_cut(self, capture: Capture, seconds: float) -> None:
        """The turn was interrupted, which ended the command."""
        self._host.record(CommandEnded(self._call_id, capture.stdout.text(), capture.stderr.text(), KILLED, seconds))
        text = model_text(with_line(capture.merged.text(), INTERRUPTED), KILLED, seconds)
        self._host.record(ToolAnswered(FunctionCallOutput(self._call_id, text), success=False))
