"""Runs a turn's hooks: at its beginning and end, and before and after each call. They can only restrict, and fail closed.

A hook sees a call as it is about to run: if one hook changes the call, all others are asked about the new version. Nothing that a
hook says removes a question, a rule or the sandbox, except `may_allow`, which the user sets.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from understudy.config.hooks.entries import Event, Family, Hook
from understudy.engine.hooks.calls import (
    MOST_VIEWS,
    CannotChange,
    SeenCall,
    View,
    see,
    see_arguments,
)
from understudy.engine.hooks.matching import is_about, matches
from understudy.engine.hooks.of_conversation import ConversationHooks, HookHost, Meant, Said
from understudy.engine.hooks.strictest import MOST_ROUNDS, Verdict, strictest
from understudy.engine.hooks.watching import WatchedHost
from understudy.errors import ToolError
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import HookApprovalAsked, HookRan, Noticed, PromptBlocked
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ApprovalAnswer, ToolHost
from understudy.tools.mcp.remote_tool import RemoteTool
from understudy.tools.mcp.tools import OtherServersTool
from understudy.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from understudy.tools.session import Session

MOST_TYPED = 8192  # characters of an unfinished line that are remembered
MOST_GOES = 8  # times that Stop hooks may make a turn continue
NOBODY = "and nobody can be asked under this approval policy"


FAMILIES: tuple[Family, ...] = ("codex", "claude")


class _Outcome(msgspec.Struct, frozen=True):
    """How a call has ended."""

    output: ToolOutput
    watched: WatchedHost
    seconds: float


class TurnHooks:
    """The hooks of one turn."""

    def __init__(self, hooks: ConversationHooks, host: HookHost) -> None:
        self.stopped: str | None = None  # why a hook ended the turn
        self._hooks = hooks
        self._host = host
        self._goes = 0
        self._judged: set[str] = set()  # message ids
        self._asked = 0
        self._detached: set[asyncio.Future[None]] = set()

    @property
    def sees_calls(self) -> bool:
        return self._hooks.has("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")

    # -- of the turn

    async def begin(self) -> None:
        """Show the notices for each start, and run SessionStart: once in this process, and again after a summary."""
        hooks, host = self._hooks, self._host
        for notice in hooks.untold:
            host.record(Noticed(notice))
        hooks.untold = ()
        history = host.state.history
        source = "startup" if history.requests == 0 else "resume"
        if hooks.started and history.summed_up_at > hooks.started_at:
            source = "compact"
        elif hooks.started:
            return
        hooks.started, hooks.started_at = True, history.requests
        await self._tell("SessionStart", {"source": source}, (source,))

    def end(self) -> None:
        """End the detached hooks: they end with the turn."""
        for each in self._detached:
            each.cancel()

    async def settle(self) -> None:
        if self._detached:
            await asyncio.wait(self._detached)

    async def judge_messages(self) -> str | None:
        """Judge each waiting message before the model reads it. If one was blocked, return the words of the hook."""
        words: str | None = None
        while True:
            waiting = self._host.state.waiting
            message = next((each for key, each in waiting.items() if key not in self._judged), None)
            if message is None:
                return words
            self._judged.add(message.message_id)
            if (blocked := await self._judge_message(message.message_id, message.message.text())) is not None:
                words = blocked

    async def _judge_message(self, message_id: str, text: str) -> str | None:
        said = await self._run("UserPromptSubmit", {"prompt": text})
        verdict = strictest(said)
        self._host.record(*(each.record for each in _without_context(said, verdict)))
        if verdict.decision == "ask":
            self._asked += 1
            name = f"hook-{self._host.turn_id}-{self._asked}"
            question = HookApprovalAsked(name, "UserPromptSubmit", verdict.hook, "", text, verdict.reason, verdict.failed)
            refusal = await self._ask(question)
            verdict = msgspec.structs.replace(verdict, decision="none" if refusal is None else "deny", reason=refusal or "")
        if verdict.decision != "deny":
            return None
        self._host.record(PromptBlocked(message_id, verdict.reason))
        return f"The message was blocked by a UserPromptSubmit hook: {verdict.reason}"

    async def may_stop(self, answer: str | None) -> bool:
        """False: a hook gave the model something to continue with."""
        if not self._hooks.has("Stop"):
            return True
        told = {"stop_hook_active": self._goes > 0, "last_assistant_message": answer or ""}
        said = await self._run("Stop", told)
        if any(each.answer.ends_turn for each in said):
            self._host.record(*(msgspec.structs.replace(each.record, context="") for each in said))
            return True
        blocked = [each for each in said if each.answer.decision == "deny"]
        if blocked and self._goes >= MOST_GOES:
            self._host.record(*(each.record for each in said))
            self._host.record(Noticed(f"a Stop hook wanted the turn to go on after {MOST_GOES} times; the turn ends"))
            return True
        self._host.record(*(_with_prompt(each) if each in blocked else each.record for each in said))
        self._goes += bool(blocked)
        return not blocked

    async def may_compact(self, trigger: str) -> str | None:
        """Why compaction is refused, in the words of a hook."""
        said = await self._tell("PreCompact", {"trigger": trigger}, (trigger,))
        blocked = next((each for each in said if each.answer.decision == "deny"), None)
        return None if blocked is None else f"a PreCompact hook blocked the summary: {blocked.answer.reason}"

    # -- of a call

    async def run_call(self, tool: Tool, call: FunctionCall, host: ToolHost) -> ToolOutput:
        """Raises `ToolError` if the call may not run."""
        if self.stopped is not None:
            raise ToolError(f"not run: a hook has ended the turn: {self.stopped}")
        seen = self._see(tool, call, host)
        if seen is None:  # a call that cannot be shown to a guard does not run
            raise ToolError("failed to parse function arguments: they should be a JSON object")
        if self._hooks.has("PreToolUse"):
            seen = await self._before(seen, tool, call, host)
        call = seen.call(call)
        watched = WatchedHost(host, self, seen, call.call_id)
        began = asyncio.get_running_loop().time()
        try:
            output = await tool.run(call, ToolContext(watched, call))
        except ToolError as error:
            output = ToolOutput(str(error), success=False)
        if output.success:
            _note_typed(seen, host)
        if watched.refused or not self._hooks.has("PostToolUse", "PostToolUseFailure"):
            return output
        return await self._after(seen, call, output, watched, asyncio.get_running_loop().time() - began)

    def _see(self, tool: Tool, call: FunctionCall, host: ToolHost) -> SeenCall | None:
        return see(call, tool.name, _remote(tool), host.settings.cwd, _typed(tool.name, call, host))

    async def _before(self, seen: SeenCall, tool: Tool, call: FunctionCall, host: ToolHost) -> SeenCall:
        """The call as it may run. Raises `ToolError`."""
        left_out: Hook | None = None  # the hook that changed it last, and so knows the new version
        changed_by: set[str] = set()
        for _ in range(MOST_ROUNDS):
            said = await self._run_on_call("PreToolUse", seen, call.call_id, {"tool_use_id": call.call_id}, left_out)
            verdict = strictest(said)
            self._host.record(*(each.record for each in said))
            if verdict.decision == "deny":
                raise ToolError(_blocked(seen, verdict.reason))
            if verdict.decision == "ask":
                await self._ask_about(seen, call.call_id, verdict)
            changed = next((each for each in said if each.answer.changed is not None), None)
            if changed is None:
                return seen
            hook = changed.meant.hook
            try:
                after = self._changed(seen, tool, call, host, changed)
            except CannotChange as problem:
                failed = Verdict("ask", f"it wants to change the call, and cannot: {problem}", hook.name, failed=True)
                await self._ask_about(seen, call.call_id, failed)
                return seen
            if after.arguments == seen.arguments:
                return seen
            if hook.key in changed_by:
                break
            changed_by.add(hook.key)
            left_out, seen = hook, after
        raise ToolError(_blocked(seen, "hooks do not agree on what is to run: each changes what another has made of it"))

    def _changed(self, seen: SeenCall, tool: Tool, call: FunctionCall, host: ToolHost, said: Said) -> SeenCall:
        view = said.meant.view
        assert view is not None
        arguments = view.change(said.answer.changed or {})
        return see_arguments(seen.name, arguments, _remote(tool), host.settings.cwd, _typed(tool.name, call, host))

    async def _ask_about(self, seen: SeenCall, call_id: str, verdict: Verdict) -> None:
        question = HookApprovalAsked(call_id, "PreToolUse", verdict.hook, seen.tool, seen.told, verdict.reason, verdict.failed)
        if (refusal := await self._ask(question)) is not None:
            raise ToolError(_blocked(seen, refusal))

    async def _ask(self, question: HookApprovalAsked) -> str | None:
        """None for a yes; otherwise why not, as the model is told it."""
        why = f"{'the hook has failed: ' if question.failed else ''}{question.reason}"
        if self._host.settings.approval_policy == "never":
            return f"{why} ({question.hook}), {NOBODY}"
        answer = await self._host.ask(question)
        if answer.decision in ("approved", "approved_for_session"):
            return None
        who = "the user said no" if answer.source == "client" else answer.source
        return f"{why} ({question.hook}); {who}{f': {answer.word}' if answer.word else ''}"

    async def permission(self, seen: SeenCall, call_id: str) -> tuple[str, ApprovalAnswer | None, bool]:
        """Ask hooks before a person is asked whether a call may run. Returns the hook's words, its answer if it has one, and
        whether the turn ends.
        """
        said = await self._run_on_call("PermissionRequest", seen, call_id, {}, None)
        verdict = strictest(said)
        self._host.record(*(each.record for each in said))
        if verdict.decision == "deny":
            ends = any(each.answer.ends_turn for each in said if each.answer.decision == "deny")
            return verdict.reason, ApprovalAnswer("denied", f"a PermissionRequest hook said no: {verdict.reason}"), ends
        own = [each for each in said if each.answer.decision == "allow" and each.meant.hook.file.source == "user"]
        if own and self._hooks.may_allow and not any(each.answer.status == "failed" for each in said):
            return "", ApprovalAnswer("approved", f"the hook {own[0].meant.hook.name}"), False
        return "", None, False

    async def _after(
        self, seen: SeenCall, call: FunctionCall, output: ToolOutput, watched: WatchedHost, seconds: float
    ) -> ToolOutput:
        await watched.look_back()
        outcome = _Outcome(output, watched, seconds)
        both = await asyncio.gather(*(self._run_after(family, seen, call.call_id, outcome) for family in FAMILIES))
        said = sorted((each for family in both for each in family), key=lambda each: each.meant.order)
        self._host.record(*(each.record for each in said))
        for each in said:
            answer, family = each.answer, each.meant.hook.file.family
            if answer.ends_turn and self.stopped is None:
                self.stopped = answer.reason
            if answer.decision == "deny" and family == "codex":
                return ToolOutput(answer.reason, success=False)
        for each in said:
            answer = each.answer
            if answer.decision == "deny":
                output = ToolOutput(
                    f"{output.text}\n\n{each.meant.hook.event} hook: {answer.reason}", output.success, output.images
                )
            elif answer.output is not None:
                output = ToolOutput(_as_text(answer.output), output.success)
        return output

    async def _run_after(self, family: Family, seen: SeenCall, call_id: str, outcome: _Outcome) -> list[Said]:
        """The programs do not mean the same calls by a failed one."""
        if not outcome.watched.failed(family, outcome.output):
            more: dict[str, Any] = {"tool_use_id": call_id}
            return await self._run_on_call("PostToolUse", seen, call_id, more, None, family=family, outcome=outcome)
        more = {"tool_use_id": call_id, "error": outcome.watched.error(family, outcome.output), "is_interrupt": False}
        return await self._run_on_call("PostToolUseFailure", seen, call_id, more, None, family=family, outcome=outcome)

    # -- running them

    async def _tell(self, event: Event, more: Mapping[str, Any], names: Sequence[str] = ()) -> list[Said]:
        said = await self._run(event, more, names)
        self._host.record(*(each.record for each in said))
        return said

    async def _run(self, event: Event, more: Mapping[str, Any], names: Sequence[str] = ()) -> list[Said]:
        meant = [
            Meant(judged, order, self._hooks.told(judged.hook, self._host, more))
            for order, judged in self._hooks.of(event)
            if matches(judged.hook, names)
        ]
        return await self._hooks.run(meant, self._host, self._detach) if meant else []

    async def _run_on_call(
        self,
        event: Event,
        seen: SeenCall,
        call_id: str,
        more: Mapping[str, Any],
        left_out: Hook | None,
        *,
        family: Family | None = None,
        outcome: _Outcome | None = None,
    ) -> list[Said]:
        meant: list[Meant] = []
        commands: set[str] = set()  # the same command in Claude Code's files runs once, wherever it is configured
        for order, judged in self._hooks.of(event):
            hook = judged.hook
            if (hook.file.family == "claude" and hook.command in commands) or family not in (None, hook.file.family):
                continue
            if hook == left_out:
                commands.add(hook.command)
            views = [] if hook == left_out else [view for view in seen.views[hook.file.family] if _means(hook, view)]
            if len(views) > MOST_VIEWS and hook.guards:
                raise ToolError(
                    _blocked(seen, f"it changes more files than a hook is asked about ({MOST_VIEWS}): use several patches")
                )
            if views and hook.file.family == "claude" and not hook.detached:
                commands.add(hook.command)
            for view in views[:MOST_VIEWS]:
                told = {"tool_name": view.tool, "tool_input": view.input, **more}
                if hook.file.family == "claude":
                    told |= {**view.more, **({"duration_ms": round(outcome.seconds * 1000)} if outcome is not None else {})}
                if event == "PostToolUse" and outcome is not None:
                    told["tool_response"] = outcome.watched.response(hook.file.family, view, outcome.output)
                meant.append(Meant(judged, order, self._hooks.told(hook, self._host, told), call_id, view.tool, view))
        return await self._hooks.run(meant, self._host, self._detach) if meant else []

    def _detach(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)


def _note_typed(seen: SeenCall, host: ToolHost) -> None:
    """Remember the line being typed: a guard is shown all of it."""
    text = seen.arguments.get("chars")
    if seen.name == "write_stdin" and isinstance(text, str) and (session := _session(seen.arguments, host)) is not None:
        session.line = f"{session.line}{text}".replace("\r", "\n").rpartition("\n")[2][-MOST_TYPED:]


def _session(arguments: Mapping[str, Any], host: ToolHost) -> "Session | None":
    """The session, however the model writes its number."""
    try:
        return host.sessions.find(int(float(arguments.get("session_id", ""))))
    except (TypeError, ValueError, OverflowError):
        return None


def _means(hook: Hook, view: View) -> bool:
    return matches(hook, view.names) and is_about(hook, view.names, view.input)


def _remote(tool: Tool) -> RemoteTool | None:
    return tool.remote if isinstance(tool, OtherServersTool) else None


def _typed(name: str, call: FunctionCall, host: ToolHost) -> str:
    if name != "write_stdin":
        return ""
    try:
        given: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return ""
    session = _session(cast(dict[str, Any], given), host) if isinstance(given, dict) else None
    return "" if session is None else session.line


def _blocked(seen: SeenCall, reason: str) -> str:
    """What the model is told: never the hook's command line."""
    if seen.tool == "Bash":
        return f"Command blocked by PreToolUse hook: {reason}. Command: {seen.told}"
    return f"{seen.tool} blocked by PreToolUse hook: {reason}"


def _without_context(said: Sequence[Said], verdict: Verdict) -> Sequence[Said]:
    """If the model does not read a message, it does not get the context that belongs to it either."""
    if verdict.decision != "deny":
        return said
    return [msgspec.structs.replace(each, record=msgspec.structs.replace(each.record, context="")) for each in said]


def _with_prompt(said: Said) -> HookRan:
    record, reason = said.record, said.answer.reason
    if said.meant.hook.file.family == "claude":
        text = f"Stop hook feedback:\n{reason}"
    else:
        text = f'<hook_prompt hook_run_id="{record.run_id}">{reason}</hook_prompt>'
    return msgspec.structs.replace(record, context=text)


def _as_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        text: Any = cast(Mapping[str, Any], output).get("stdout")
        if isinstance(text, str):
            return text
    return msgspec.json.encode(output).decode()
