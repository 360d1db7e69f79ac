"""The turn, as the acts of one read see it: beginnings are recorded at once, the rest when its time comes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.protocol.records import Delta, Question, Record, ToolCallBegan
from understudy.tools.host import ApprovalAnswer, RunsCommands, ToolHost, ToolSettings

if TYPE_CHECKING:
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


class HoldsRecords:
    """A `ToolHost` in front of another."""

    def __init__(self, host: ToolHost) -> None:
        self.held: list[Record] = []
        self._host = host

    def record(self, *records: Record) -> None:
        for record in records:
            if isinstance(record, ToolCallBegan):
                self._host.record(record)
            else:
                self.held.append(record)

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

    async def ask(self, question: Question) -> ApprovalAnswer:
        return await self._host.ask(question)

    def open_question(self, call_id: str) -> Question | None:
        return self._host.open_question(call_id)

    def is_approved(self, key: Callable[[], str]) -> bool:
        return self._host.is_approved(key)
