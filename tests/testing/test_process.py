"""The MCP test client keeps its promises, shown on a server of a few lines."""

import asyncio
import sys
from pathlib import Path

import pytest

from understudy.testing import McpProcess, RpcError, ServerDied

TINY_SERVER = """
import json, os, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            info = {"name": "tiny", "version": os.environ["CODEX_HOME"]}
            version = message["params"]["protocolVersion"]
            say(id=message["id"], result={"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        case "tools/call" if message["params"]["name"] == "codex":
            meta = {"requestId": message["id"]}
            for method in ("codex/event", "task_started"):
                say(method=method, params={"_meta": meta, "id": "1", "msg": {"type": "task_started"}})
            say(id=0, method="elicitation/create", params={"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
            answer = json.loads(sys.stdin.readline())
            say(id=message["id"], result={"content": [{"type": "text", "text": json.dumps(answer["result"])}]})
        case "tools/call" if message["params"]["name"] == "odd":
            say(id=message["id"], result={"error": "no content"})
        case "tools/call":
            print("the reason", file=sys.stderr, flush=True)
            sys.exit(3)
        case "no/such/method":
            say(id=message["id"], error={"code": -32601, "message": "unknown"})
"""


def tiny(tmp_path: Path) -> McpProcess:
    return McpProcess(cwd=tmp_path, command=[sys.executable, "-c", TINY_SERVER])


async def test_calls_events_and_questions_are_told_apart(tmp_path: Path) -> None:
    async with tiny(tmp_path) as client:
        assert client.server_info["serverInfo"]["version"] == str(client.home)
        call = client.call_tool("codex", prompt="hi")
        question = await client.next_request("elicitation/create")
        assert not call.done
        await client.respond(question, {"action": "accept"})
        assert await call == {"content": [{"type": "text", "text": '{"action": "accept"}'}]}
        assert client.events(call) == [{"type": "task_started"}]
        assert await client.event("task_started", call) == {"type": "task_started"}
        with pytest.raises(RpcError, match="-32601 unknown"):
            await client.request("no/such/method")


async def test_a_server_that_dies_fails_every_waiter_at_once_with_its_stderr(tmp_path: Path) -> None:
    async with tiny(tmp_path) as client:
        waiters = [client.next_request(), client.next_notification("x"), client.answer(client.call_tool("die").id)]
        results = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(result) for result in results] == [ServerDied] * 3
        assert "exit code 3\nthe reason\n" in str(results[0])


async def test_a_frame_that_breaks_mcp_fails_the_test_that_saw_it(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"frames that a client may refuse:\nValidationError"):
        async with tiny(tmp_path) as client:
            await client.call_tool("odd")


async def test_a_wait_in_vain_names_what_it_waited_for(tmp_path: Path) -> None:
    async with tiny(tmp_path) as client:
        with pytest.raises(AssertionError, match=r"waited 0\.05 s in vain for the moon"):
            await client.until(lambda: None, "the moon", 0.05)


async def test_a_server_that_cannot_be_started_leaves_nothing_behind() -> None:
    server = McpProcess(command=["/no/such/server"])
    with pytest.raises(FileNotFoundError):
        await server.__aenter__()
    assert not server.cwd.exists()


async def test_a_server_that_dies_at_once_says_why(tmp_path: Path) -> None:
    dying = McpProcess(cwd=tmp_path, command=[sys.executable, "-c", "import sys; sys.exit('no such configuration')"])
    with pytest.raises(ServerDied, match="exit code 1\nno such configuration"):
        await dying.__aenter__()


STUBBORN = """
import sys, time
sys.stdin.close()
print("staying", file=sys.stderr, flush=True)
print('{"jsonrpc": "2.0", "method": "here"}', flush=True)
time.sleep(3600)
"""


async def test_a_server_that_ignores_the_end_of_input_is_killed(tmp_path: Path) -> None:
    server = McpProcess(cwd=tmp_path, command=[sys.executable, "-c", STUBBORN], initialize=False, wait_seconds=0.5)
    with pytest.raises(AssertionError, match=r"did not go within 0\.5 s of the end of input\nstaying"):
        async with server:
            await server.until(lambda: server.frames or None, "its start", 60)
    assert server.process.returncode == -9


@pytest.mark.parametrize(("line", "seconds", "complaint"), [("nonsense", 60, "not JSON"), ("[1]", 0.5, "in vain")])
async def test_a_line_that_is_no_message_does_not_hang_the_test(tmp_path: Path, line: str, seconds: float, complaint: str) -> None:
    odd = f"import sys\nprint({line!r}, flush=True)\nsys.stdin.read()\n"
    server = McpProcess(cwd=tmp_path, command=[sys.executable, "-c", odd], wait_seconds=seconds)
    with pytest.raises(AssertionError, match=complaint):
        await server.__aenter__()
