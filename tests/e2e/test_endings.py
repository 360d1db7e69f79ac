"""The end of input, signals and clients that vanish: children are gone, the log has it, and the server goes within a second."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, is_alive, thread_of
from tests.e2e.talking import Stream, listed
from tests.support.mcp_client import SERVER_COMMAND, McpProcess
from tests.support.model_script import HOLD, call, deltas, say
from tests.support.model_server import ScriptedModel
from tests.support.waiting import WAIT_SECONDS

SLEEPER = ["sh", "-c", "sleep 60 & echo $! > child; echo started; wait"]
ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}


def launch(model: ScriptedModel, folder: Path, **options: Any) -> McpProcess:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return McpProcess(model.url, cwd=folder, home=home, **options)


async def end(server: McpProcess, how: str) -> float:
    """Seconds from the word to the end."""
    started = time.monotonic()
    if how == "EOF":
        assert server.process.stdin
        server.process.stdin.close()
    else:
        server.process.send_signal(getattr(signal, how))
    assert await server.exit_code() == 0
    return time.monotonic() - started


@pytest.mark.parametrize("how", ["EOF", "SIGTERM", *(pytest.param(name, marks=pytest.mark.slow) for name in ("SIGINT", "SIGHUP"))])
async def test_a_running_command_ends_with_the_server_and_is_on_record(tmp_path: Path, how: str) -> None:
    script = [call("shell", command=SLEEPER, timeout=100_000), say("I see")]
    async with ScriptedModel(script) as model:
        async with launch(model, tmp_path) as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.event("exec_command_output_delta", call_)
            thread = str((await first.event("session_configured", call_))["session_id"])
            seconds = await end(first, how)
            assert not is_alive(int((tmp_path / "child").read_text()))
            assert seconds < WAIT_SECONDS
            result = await call_
            assert result["isError"] is True, "whoever still reads is told"
        async with launch(model, tmp_path) as second:
            stream = Stream(second, thread)
            snapshot = [event["msg"] for event in await stream.snapshot()]
            assert [event["type"] for event in snapshot] == [
                "task_started",
                "exec_command_begin",
                "exec_command_end",
                "error",
                "task_complete",
            ], "the interrupt is in the log"
            assert snapshot[2]["stdout"] == "started\n"
            assert await second.call_tool("codex-reply", threadId=thread, prompt="2") == answered("I see", thread)


async def test_a_client_that_vanishes_in_mid_approval_can_come_back(tmp_path: Path) -> None:
    async with ScriptedModel([call("shell", command=["touch", "made"]), say("done")]) as model:
        async with launch(model, tmp_path, config=ASKING) as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.next_request("elicitation/create")
            thread = str((await first.event("session_configured", call_))["session_id"])
            await end(first, "EOF")
        async with launch(model, tmp_path, config=ASKING) as second:
            [entry] = await listed(second)
            assert (entry["status"], entry["pending"]) == ("waiting", ["call1"])
            reply = second.call_tool("codex-reply", threadId=thread, prompt="2")
            await second.respond(await second.next_request("elicitation/create"), {"decision": "approved"})
            assert await reply == answered("done", thread)
            assert (tmp_path / "made").exists()


async def test_the_end_of_input_while_the_model_speaks(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["half", HOLD]), say("whole")]) as model:
        async with launch(model, tmp_path) as first:
            call_ = first.call_tool("codex", prompt="1")
            await first.event("agent_message_delta", call_)
            thread = str((await first.event("session_configured", call_))["session_id"])
            await end(first, "EOF")
            assert await model.outcome(1) == "dropped"
        async with launch(model, tmp_path) as second:
            kinds = [event["msg"]["type"] for event in await Stream(second, thread).snapshot()]
            assert kinds[0] == "task_started"
            assert kinds[-2:] == ["error", "task_complete"]
            assert await second.call_tool("codex-reply", threadId=thread, prompt="2") == answered("whole", thread)
        said = [message["content"] for message in model.requests[1]["messages"] if message["role"] == "assistant"]
        assert said == ["half"]


async def test_a_reader_that_closes_its_end_ends_the_server(tmp_path: Path) -> None:
    """Nobody can be told anything any more, though the input is still open."""
    read, write = os.pipe()
    env = {**os.environ, "CODEX_HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        *SERVER_COMMAND, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE, env=env, cwd=tmp_path
    )
    os.close(write)
    assert process.stdin
    process.stdin.write(b'{"id":1,"method":"ping"}\n')
    await process.stdin.drain()
    assert await asyncio.to_thread(os.read, read, 100) == b'{"id":1,"jsonrpc":"2.0","result":{}}\n'
    os.close(read)
    process.stdin.write(b'{"id":2,"method":"ping"}\n' * 3)
    async with asyncio.timeout(WAIT_SECONDS):
        assert await process.wait() == 0
    assert process.stderr
    assert await process.stderr.read() == b""


async def test_calls_sent_just_before_the_end_of_input_are_answered(tmp_path: Path) -> None:
    async with ScriptedModel([]) as model:
        server = launch(model, tmp_path)
        async with server as client:
            created = client.call_tool("conversationCreate")
            pinged = client.request("ping")
            await end(client, "EOF")
            assert await pinged == {}
            conversation = (await created)["structuredContent"]["conversation_id"]
        async with launch(model, tmp_path) as second:
            assert [entry["conversation_id"] for entry in await listed(second)] == [conversation]


async def test_a_server_with_nothing_to_do_goes_at_once(tmp_path: Path) -> None:
    async with ScriptedModel([say("ok")]) as model, launch(model, tmp_path) as server:
        thread_of(await server.call_tool("codex", prompt="1"))
        await end(server, "EOF")
