"""Progress: one readable line a step, and a heartbeat while nothing happens."""

import asyncio
import json
import re
from typing import Any

import pytest

from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, SummaryText
from understudy.protocol.records import (
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    ItemReceived,
    Noticed,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanStep,
    PlanUpdated,
    Record,
    RequestSent,
    ToolCallBegan,
    ToolCallEnded,
    TurnStarted,
)
from understudy.protocol.records.files import AddFile
from understudy.servers.mcp import progress
from understudy.servers.mcp.progress import Progress, describe
from understudy.servers.pipes import PipeSink
from understudy.testing.waiting import WAIT_SECONDS


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (RequestSent(), "asking the model"),
        (ItemReceived(Message("assistant", (OutputText("Hello,\n  world"),))), "Hello, world"),
        (ItemReceived(Reasoning((SummaryText("Thinking"),))), "Thinking"),
        (ItemReceived(Reasoning()), None),
        (ItemReceived(FunctionCall("shell", "{}", "c")), None),
        (ItemReceived(FunctionCall("odd", "{}", "c")), "calls odd"),
        (CommandStarted("c", ("echo", "a b"), "/", contained=True), "runs echo 'a b'"),
        (CommandEnded("c", "", "", 3, 0.0), "command ended with exit code 3"),
        (PatchStarted("c", {"/a": AddFile("")}, auto_approved=True), "changes 1 file"),
        (PatchStarted("c", {"/a": AddFile(""), "/b": AddFile("")}, auto_approved=True), "changes 2 files"),
        (PatchEnded("c", "", "", success=True), "changes applied"),
        (PatchEnded("c", "", "", success=False), "changes could not be applied"),
        (CommandApprovalAsked("c", ("rm", "x"), "/"), "asks for approval: rm x"),
        (PatchApprovalAsked("c", {"/a": AddFile("")}), "asks for approval: changes to 1 file"),
        (PlanUpdated((PlanStep("Look", "completed"), PlanStep("Leap", "in_progress"))), "plan: Leap"),
        (PlanUpdated(()), "plan updated"),
        (ToolCallBegan("c", "time", "now"), "calls now of time"),
        (ToolCallEnded("c", "time", "now", 0.1, result={"content": []}), "now ended"),
        (ToolCallEnded("c", "time", "now", 0.1, error="no"), "now failed"),
        (Noticed("a word"), "a word"),
        (TurnStarted("1"), None),
    ],
)
def test_each_step_has_a_line(record: Record, words: str | None) -> None:
    assert describe(record) == words


def test_a_line_is_short_and_hides_nothing() -> None:
    long = describe(Noticed("x" * 1000))
    assert long is not None
    assert len(long) <= 200
    odd = describe(Noticed("a\x1b[2Jb\u202e"))
    assert odd is not None
    assert "\x1b" not in odd
    assert "\u202e" not in odd


async def test_a_heartbeat_comes_while_nothing_happens_and_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.05)
    sink, transport = PipeSink(asyncio.get_running_loop()), Gatherer()
    sink.attach(transport)
    told = Progress("token", sink, 7, asyncio.get_running_loop(), ConversationId("t1"))
    told.step(RequestSent())
    await transport.until(3)
    told.stop()
    count = len(transport.messages)
    params = [message["params"] for message in transport.messages]
    assert [one["progress"] for one in params] == list(range(1, count + 1))
    assert params[0]["message"] == "asking the model (thread t1)"
    assert all(re.fullmatch(r"asking the model \(\d+ s\) \(thread t1\)", one["message"]) for one in params[1:]), (
        "whoever gives up knows it"
    )
    assert {one["progressToken"] for one in params} == {"token"}
    await asyncio.sleep(0.12)
    assert len(transport.messages) == count


class Gatherer(asyncio.WriteTransport):
    """Takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.messages += [json.loads(line) for line in bytes(data).splitlines()]
        self._more.set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    async def until(self, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.messages) < count:
                self._more.clear()
                await self._more.wait()
