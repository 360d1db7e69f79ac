"""Requests that come on a pipe in great numbers, in one write: each step of the server is short, and all of them are answered."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.counted_steps import Steps
from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas, say
from understudy.testing.home import SERVER_COMMAND
from understudy.testing.waiting import WAIT_SECONDS

CALLS_IN_A_STEP = 60_000
FIRST_ID = 10_000


def tool(name: str) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": {}}}


async def answered_in_short_steps(tmp_path: Path, request: dict[str, Any], count: int) -> None:
    steps = Steps(tmp_path)
    async with ScriptedModel(lambda _: say("yes")) as model:
        server = McpProcess(model, cwd=tmp_path, command=(*steps.started_by, *SERVER_COMMAND), check_frames=False)
        async with server:
            await server.call_tool("conversationsList")
            await server.call_tool("conversationCreate")  # what is loaded once is loaded then
            steps.reset()
            lines = [json.dumps({"jsonrpc": "2.0", "id": FIRST_ID + number, **request}) for number in range(count)]
            await server.send_raw("".join(f"{line}\n" for line in lines).encode())
            wanted = set(range(FIRST_ID, FIRST_ID + count))
            async with asyncio.timeout(WAIT_SECONDS):
                while not wanted <= {frame.get("id") for frame in server.frames if "result" in frame}:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert steps.calls < CALLS_IN_A_STEP, steps.where


async def test_a_thousand_conversations_are_created_in_short_steps(tmp_path: Path) -> None:
    """More than are kept in memory when nobody uses them, and none of them at rest yet."""
    await answered_in_short_steps(tmp_path, tool("conversationCreate"), 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "count"), [({"method": "ping"}, 20_000), ({"method": "tools/list"}, 1000), (tool("conversationsList"), 3000)]
)
async def test_thousands_of_requests_are_answered_in_short_steps(tmp_path: Path, request_: dict[str, Any], count: int) -> None:
    await answered_in_short_steps(tmp_path, request_, count)


async def test_what_comes_right_before_the_end_of_the_input_is_read(tmp_path: Path) -> None:
    """The server ends with its input, and not before it has handed over all that came with that."""
    count, home = 100, tmp_path / "home"
    async with ScriptedModel([]) as model:
        server = McpProcess(model, cwd=tmp_path, home=home, check_frames=False)
        async with server:
            await server.call_tool("conversationsList")
            request = tool("conversationCreate")
            lines = [json.dumps({"jsonrpc": "2.0", "id": FIRST_ID + number, **request}) for number in range(count)]
            server.child.write("\n".join(lines).encode())  # no line end behind the last
            assert await server.child.close() == 0
        async with McpProcess(model, cwd=tmp_path, home=home) as later:
            listed = await later.call_tool("conversationsList", limit=100)
            assert len(listed["structuredContent"]["conversations"]) == count


async def test_a_ping_and_a_cancellation_go_before_hundreds_of_calls_that_wait(tmp_path: Path) -> None:
    """The ping is answered before most of the calls are even looked at; what is cancelled is not a call that waits itself."""
    count, held, ping = 300, 7, 8
    async with ScriptedModel(lambda request: deltas(["Well", HOLD]) if "hold" in str(request) else say("yes")) as model:
        server = McpProcess(model, cwd=tmp_path, check_frames=False)
        async with server:
            await server.call_tool("conversationCreate")  # what is loaded once is loaded then

            def line(number: int, **message: Any) -> str:
                return json.dumps({"jsonrpc": "2.0", "id": number, **message}) + "\n"

            def cancel(number: int) -> str:
                return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}) + "\n"

            async def answered(*numbers: int) -> list[int]:
                async with asyncio.timeout(WAIT_SECONDS):
                    while not set(numbers) <= (found := {frame.get("id"): None for frame in server.frames}).keys():  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                return [number for number in found if isinstance(number, int)]

            holding = {"method": "tools/call", "params": {"name": "codex", "arguments": {"prompt": "hold"}}}
            await server.send_raw(line(held, **holding).encode())
            await server.event("agent_message_delta")
            calls = [line(FIRST_ID + number, **tool("conversationCreate")) for number in range(count)]
            late = FIRST_ID + count
            behind = [cancel(held), line(late, **holding), cancel(late), line(ping, method="ping")]
            await server.send_raw("".join([*calls, *behind]).encode())
            order = await answered(*(FIRST_ID + number for number in range(count)), held, late, ping)
            assert order.index(ping) < order.index(FIRST_ID + count // 2)
            assert order.index(held) < order.index(FIRST_ID + count - 1)
            assert order.index(late) > order.index(FIRST_ID + count - 1), "it waited behind the call that it means"
