"""Stands between one call and its turn if there are hooks: notes what the call did, and shows its questions to hooks first."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from understudy.config.hooks.entries import Family
from understudy.engine.hooks.calls import SeenCall, View
from understudy.errors import ToolError
from understudy.protocol.records import CommandEnded, CommandStarted, Delta, Question, Record, ToolCallEnded
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ApprovalAnswer, RunsCommands, ToolHost, ToolSettings

if TYPE_CHECKING:
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


class AsksHooks(Protocol):
    stopped: str | None

    async def permission(self, seen: SeenCall, call_id: str) -> tuple[str, ApprovalAnswer | None, bool]: ...


class WatchedHost:
    """Wraps the turn's `ToolHost` for one call."""

    def __init__(self, host: ToolHost, hooks: AsksHooks, seen: SeenCall, call_id: str) -> None:
        self.refused = False  # somebody said no: nothing has run
        self.ran_a_command = False
        self._ended: CommandEnded | ToolCallEnded | None = None
        self._host = host
        self._hooks = hooks
        self._seen = seen
        self._call_id = call_id

    def record(self, *records: Record) -> None:
        for record in records:
            if isinstance(record, CommandStarted):
                self.ran_a_command = True
            elif isinstance(record, CommandEnded | ToolCallEnded):
                self._ended = record
        self._host.record(*records)

    async def ask(self, question: Question) -> ApprovalAnswer:
        _, answer, ends = await self._hooks.permission(self._seen, self._call_id)
        if answer is None:
            answer = await self._host.ask(question)
        if answer.decision == "denied":
            self.refused = True
        if ends:
            self._hooks.stopped = answer.source
            raise ToolError(answer.refusal("tool call"))
        return answer

    def response(self, family: Family, view: View, output: ToolOutput) -> Any:
        """What the call returned, in the shape of the family."""
        ended = self._ended
        if isinstance(ended, ToolCallEnded) and ended.result is not None and view.tool.startswith("mcp__"):
            content = ended.result.get("content", [])
            return content if family == "claude" else {"content": content, "isError": ended.failed}
        if family == "codex":
            if isinstance(ended, CommandEnded) and view.tool == "Bash":
                return f"{ended.stdout}{ended.stderr}"
            return _as_of_a_patch(output) if view.tool == "apply_patch" else output.text
        match view.tool:
            case "Bash":
                ran = isinstance(ended, CommandEnded)
                stdout, stderr = (ended.stdout, ended.stderr) if ran else (output.text, "")
                told = {
                    "stdout": stdout.removesuffix("\n"),
                    "stderr": stderr.removesuffix("\n"),
                    "interrupted": False,
                    "isImage": False,
                }
                return {**told, "noOutputExpected": False, **({"exit_code": ended.exit_code} if ran else {})}
            case "Edit":
                named = {"filePath": "file_path", "oldString": "old_string", "newString": "new_string"}
                told = {theirs: view.input.get(ours, "") for theirs, ours in named.items()}
                return {**told, "structuredPatch": [], "userModified": False, "replaceAll": bool(view.input.get("replace_all"))}
            case "Write":
                told = {"type": "create", "filePath": view.input.get("file_path", ""), "content": view.input.get("content", "")}
                return {**told, "structuredPatch": [], "originalFile": None, "userModified": False}
            case _:
                return output.text

    # -- passed on to the turn

    @property
    def settings(self) -> ToolSettings:
        return self._host.settings

    @property
    def owner(self) -> str:
        return self._host.owner

    @property
    def sandbox(self) -> RunsCommands:
        return self._host.sandbox

    @property
    def sessions(self) -> "Sessions":
        return self._host.sessions

    @property
    def servers(self) -> "Servers | None":
        return self._host.servers

    @property
    def diff(self) -> "TurnDiff":
        return self._host.diff

    @property
    def unsaved(self) -> "UnsavedTexts | None":
        return self._host.unsaved

    async def committed(self) -> None:
        await self._host.committed()

    def emit(self, delta: Delta) -> None:
        self._host.emit(delta)

    def open_question(self, call_id: str) -> Question | None:
        return self._host.open_question(call_id)

    def is_approved(self, key: Callable[[], str]) -> bool:
        return self._host.is_approved(key)


class _Patched(msgspec.Struct):
    output: str


def _as_of_a_patch(output: ToolOutput) -> str:
    """In codex's words, whatever our model is told."""
    try:
        text = msgspec.json.decode(output.text, type=_Patched).output
    except msgspec.MsgspecError:
        text = output.text
    return f"Exit code: {0 if output.success else 1}\nWall time: 0 seconds\nOutput:\n{text}"
