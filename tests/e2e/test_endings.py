"""The end of input, signals and clients that vanish: children are gone, the log has it, and the server goes within a second."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, is_alive, thread_of
from tests.e2e.talking import Stream, listed
from understudy.testing import HOLD, SERVER_COMMAND, McpProcess, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

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


@pytest.mark.quick(1)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}
WITH_SETTINGS = ("-c", "model=m")


async def start(folder: Path, *args: str, **streams: Any) -> asyncio.subprocess.Process:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    env = {**os.environ, "CODEX_HOME": str(folder)}
    return await asyncio.create_subprocess_exec(*SERVER_COMMAND, *args, env=env, cwd=folder, **options)


@pytest.mark.quick(1)
@pytest.mark.parametrize("args", [(), WITH_SETTINGS], ids=["plain", "with -c"])
@pytest.mark.parametrize("how", ["EOF", "SIGTERM", "SIGINT", "SIGHUP"])
async def test_it_leaves_with_code_0_and_without_a_word(tmp_path: Path, args: tuple[str, ...], how: str) -> None:
    server = await start(tmp_path, *args)
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps(INITIALIZE).encode() + b'\n{"id":2,"method":"ping"}\n')
    async with asyncio.timeout(WAIT_SECONDS):
        assert json.loads(await server.stdout.readline())["id"] == 1
        assert json.loads(await server.stdout.readline())["id"] == 2
        if how == "EOF":
            server.stdin.close()
        else:
            server.send_signal(getattr(signal, how))
        rest, complaints = await server.communicate()
    assert (server.returncode, rest, complaints) == (0, b"", b"")


@pytest.mark.slow
@pytest.mark.parametrize("said", [b"", json.dumps(INITIALIZE).encode() + b"\n"], ids=["before a word", "while it is being loaded"])
async def test_a_signal_that_comes_early_ends_it_as_well(tmp_path: Path, said: bytes) -> None:
    server = await start(tmp_path)
    assert server.stdin
    assert server.stdout
    async with asyncio.timeout(WAIT_SECONDS):
        server.stdin.write(said)
        if said:
            await server.stdout.readline()
        else:
            while not handles_signal(server.pid, signal.SIGTERM):  # noqa: ASYNC110
                await asyncio.sleep(0.005)  # nothing else tells that Python has started
        server.send_signal(signal.SIGTERM)
        _, complaints = await server.communicate()
    assert (server.returncode, complaints) == (0, b"")


def handles_signal(pid: int, number: int) -> bool:
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.parametrize("args", [(), WITH_SETTINGS], ids=["plain", "with -c"])
async def test_a_reader_that_goes_after_the_greeting_ends_it_with_code_0(tmp_path: Path, args: tuple[str, ...]) -> None:
    read, write = os.pipe()
    server = await start(tmp_path, *args, stdout=write)
    os.close(write)
    assert server.stdin
    server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
    assert b'"id":1' in await asyncio.to_thread(os.read, read, 65536)
    os.close(read)
    server.stdin.write(b'{"id":2,"method":"ping"}\n')
    async with asyncio.timeout(WAIT_SECONDS):
        assert await server.wait() == 0
    assert server.stderr
    assert await server.stderr.read() == b""


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("redirection", "said", "complaint"),
    [
        ("<&-", "", "understudy: standard input is closed"),
        (">&-", "", "understudy: standard output is closed"),
        (">&-", json.dumps(INITIALIZE), "understudy: standard output is closed"),
        (">/dev/full", json.dumps(INITIALIZE), "understudy: standard input or output failed: No space left on device"),
        (">/dev/full", '{"id":1,"method":"ping"}', "understudy: ERROR: standard output cannot be written"),
    ],
)
@pytest.mark.parametrize("args", [(), WITH_SETTINGS], ids=["plain", "with -c"])
def test_streams_that_cannot_be_used_are_an_error_of_one_line(
    tmp_path: Path, args: tuple[str, ...], redirection: str, said: str, complaint: str
) -> None:
    done = run_redirected(tmp_path, args, redirection, said)
    assert done.returncode == 1
    assert done.stderr.startswith(complaint)
    assert done.stderr.count("\n") == 1


def test_a_server_without_standard_error_serves(tmp_path: Path) -> None:
    done = run_redirected(tmp_path, WITH_SETTINGS, "2>&-", '{"id":1,"method":"ping"}')
    assert (done.returncode, done.stdout) == (0, '{"id":1,"jsonrpc":"2.0","result":{}}\n')


def run_redirected(folder: Path, args: tuple[str, ...], redirection: str, said: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *SERVER_COMMAND, *args]
    env = {**os.environ, "CODEX_HOME": str(folder)}
    return subprocess.run(command, input=f"{said}\n", capture_output=True, text=True, cwd=folder, env=env, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["EOF", "SIGTERM"])
async def test_a_server_ends_without_a_word_where_the_environment_makes_errors_of_warnings(tmp_path: Path, how: str) -> None:
    async with ScriptedModel([call("shell", command=["echo", "hi"]), say("Done.")]) as model:
        server = launch(model, tmp_path, env={"PYTHONWARNINGS": "error"})
        async with server:
            await server.call_tool("codex", prompt="go")
            await end(server, how)
    assert server.stderr == ""
