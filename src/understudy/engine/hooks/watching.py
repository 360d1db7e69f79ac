"""Stands between one call and its turn if there are hooks: notes what the call did, and shows its questions to hooks first."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from understudy.config.hooks.entries import Family
from understudy.engine.hooks.calls import SeenCall, View
from understudy.engine.hooks.responses import Edited, error_of, response, what_was_edited
from understudy.errors import ToolError
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Delta,
    LeftFile,
    PatchEnded,
    Question,
    Record,
    ToolCallEnded,
)
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
        self._left: tuple[LeftFile, ...] = ()
        self._edited: dict[str, Edited] = {}
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
            elif isinstance(record, PatchEnded):
                self._left = record.files or ()
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

    async def look_back(self) -> None:
        """Remember what a patch has changed, before a hook that is told of it changes it again."""
        self._edited = await what_was_edited(self._host, self._left) if self._left else {}

    def response(self, family: Family, view: View, output: ToolOutput) -> Any:
        """What the call returned, in the shape of the family."""
        path = view.input.get("file_path")
        edited = self._edited.get(os.path.realpath(path)) if self._edited and isinstance(path, str) else None
        return response(family, view, output, self._ended, {} if edited is None else {str(path): edited})

    def error(self, family: Family, output: ToolOutput) -> str:
        return error_of(output, self._ended) if family == "claude" else output.text

    def failed(self, family: Family, output: ToolOutput) -> bool:
        """Whether the call has failed in the eyes of that program: for Claude Code a command does with any exit code but 0."""
        if self.ran_a_command:
            return family == "claude" and isinstance(self._ended, CommandEnded) and self._ended.exit_code != 0
        return not output.success

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
