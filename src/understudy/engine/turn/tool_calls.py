"""Runs the tool calls of a model's answers, each to its end.

Calls that only read run concurrently; their records are written in the order of the calls.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.log.recovery import answer_unanswered
from understudy.engine.log.tail import Tail
from understudy.errors import AgentError, ToolError
from understudy.protocol.items import FunctionCall, FunctionCallOutput
from understudy.protocol.records import Delta, Question, Record, ToolAnswered, ToolCallBegan
from understudy.tools.calls import ToolOutput
from understudy.tools.host import ApprovalAnswer, RunsCommands, ToolHost, ToolSettings
from understudy.tools.registry import only_reads
from understudy.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from understudy.engine.hooks.turn_hooks import TurnHooks
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


class HoldsRecords:
    """Wraps another `ToolHost` and holds back its records."""

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


MOST_READS = 8  # concurrently


class ToolCalls:
    """The calls of one turn."""

    def __init__(self, turn_id: str, tail: Tail, find_tool: Callable[[str], Tool | None], hooks: "TurnHooks | None" = None) -> None:
        """`hooks` see each call before and after; each call then runs alone, so that a person is asked about one at a time."""
        self._turn_id = turn_id
        self._hooks = hooks
        self._tail = tail
        self._find_tool = find_tool
        self.reads: list[_Read] = []  # running, or finished with an unrecorded result

    async def make_way(self, call: FunctionCall) -> None:
        """Wait until the call may run: a call with effects runs alone, a read beside a few others."""
        together = self._hooks is None and only_reads(call.name) and len(self.reads) < MOST_READS
        if not together or any(read.call.call_id == call.call_id for read in self.reads):
            await self.finish_reads()

    async def run(self, call: FunctionCall, host: ToolHost) -> None:
        """Run a call to its end, or begin it if it only reads."""
        if self._hooks is not None or not only_reads(call.name):
            self._answer(call, await self._run(call, host))
            return
        holds = HoldsRecords(host)
        task = asyncio.create_task(self._run(call, holds), name=f"call {call.call_id}")
        self.reads.append(_Read(call, holds, task))
        await asyncio.sleep(0)  # lets the read record its beginning before anything else happens

    async def finish_reads(self) -> None:
        if self.reads:
            await asyncio.wait([read.task for read in self.reads])
            self._record_reads()

    async def stop_reads(self) -> None:
        """The turn is told to end: record what has been read, and that the other reads were not done."""
        for read in self.reads:
            read.task.cancel()
        try:
            if self.reads:
                await asyncio.wait([read.task for read in self.reads])
        finally:
            self._record_reads()

    def _record_reads(self) -> None:
        """Raises the error of a read once all are recorded."""
        reads, self.reads = self.reads, []
        bug: BaseException | None = None
        for read in reads:
            if not read.task.done():
                continue  # nobody waits for it any more; the turn's end says that it is unfinished
            try:
                self._record(*read.host.held)
                if read.task.cancelled():
                    self._record(answer_unanswered(self._tail.state, read.call.call_id))
                elif (error := read.task.exception()) is None:
                    self._answer(read.call, read.task.result())
                else:
                    bug = bug or error
            except AgentError as error:
                self._answer(read.call, self._failed(error))
        if bug is not None:
            raise bug

    async def _run(self, call: FunctionCall, host: ToolHost) -> ToolOutput:
        tool = self._find_tool(call.name)
        try:
            if tool is None:
                return ToolOutput(f"unsupported call: {call.name}", success=False)
            if self._hooks is not None:
                return await self._hooks.run_call(tool, call, host)
            return await tool.run(call, ToolContext(host, call))
        except ToolError as error:
            return ToolOutput(str(error), success=False)
        except AgentError as error:  # the act could not be contained or recorded
            return self._failed(error)

    def _failed(self, error: AgentError) -> ToolOutput:
        """Tell the model, unless the log itself is gone."""
        if self._tail.failure:
            raise error
        return ToolOutput(f"execution error: {error}", success=False)

    def _answer(self, call: FunctionCall, output: ToolOutput) -> None:
        self._record(ToolAnswered(FunctionCallOutput(call.call_id, output.text, output.images), output.success))

    def _record(self, *records: Record) -> None:
        self._tail.append(*records, turn=self._turn_id)


class _Read:
    """A running call."""

    __slots__ = ("call", "host", "task")

    def __init__(self, call: FunctionCall, host: HoldsRecords, task: "asyncio.Task[ToolOutput]") -> None:
        self.call = call
        self.host = host
        self.task = task
