"""`understudy app-server`: threads and turns over its protocol, with the real program and a scripted model."""

import shlex
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import names_offered
from tests.support.app_client import AppClient, LineClient, RpcFailed
from understudy.testing import CodexHome, Script, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS


@asynccontextmanager
async def scene(
    script: Script, tmp_path: Path, *, config: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[ScriptedModel, AppClient, Path]]:
    """A model, a client, and the folder in which threads work."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    async with ScriptedModel(script) as model:
        home = CodexHome(tmp_path / "home" / ".codex", model, config=config)
        async with AppClient(home.path, work, **options) as client:
            yield model, client, work


async def test_a_turn_streams_its_text_and_ends(tmp_path: Path) -> None:
    async with scene([say("Hello you", usage=(10, 2))], tmp_path) as (model, client, work):
        thread = await client.start_thread(work)
        before = len(client.messages)
        turn = await client.run_turn(thread, "say hello")
        told = [message for message in client.messages[before:] if "method" in message]
    assert [kind for kind, _ in groupby(message["method"] for message in told)] == [
        "thread/status/changed",
        "turn/started",
        "item/started",
        "item/completed",
        "item/started",
        "item/agentMessage/delta",
        "item/completed",
        "thread/tokenUsage/updated",
        "thread/status/changed",
        "turn/completed",
    ]
    assert turn["status"] == "completed"
    assert [item["text"] for item in turn["items"]] == ["Hello you"]
    assert "update_plan" in names_offered(model.requests[0])
    assert client.exit_code == 0


async def test_an_answer_comes_before_what_it_causes(tmp_path: Path) -> None:
    async with scene([say("one")], tmp_path) as (_, client, work):
        thread = await client.start_thread(work, ephemeral=True)
        await client.run_turn(thread, "go")
        kinds = [message.get("method") or f"answer {message['id']}" for message in client.messages]
    assert kinds[:5] == ["answer 1", "answer 2", "thread/started", "answer 3", "thread/status/changed"]


@pytest.mark.slow
async def test_a_command_is_an_item_with_its_output_and_its_end(tmp_path: Path) -> None:
    script = [call("shell", command=["bash", "-c", "echo one; echo two >&2; exit 3"]), say("done")]
    async with scene(script, tmp_path) as (_, client, work):
        thread = await client.start_thread(work)
        await client.run_turn(thread, "go")
        items = [message["params"]["item"] for message in client.messages if message.get("method") == "item/completed"]
        begun = [message["params"]["item"]["id"] for message in client.messages if message.get("method") == "item/started"]
        printed = "".join(
            message["params"]["delta"]
            for message in client.messages
            if message.get("method") == "item/commandExecution/outputDelta"
        )
    command = next(item for item in items if item["type"] == "commandExecution")
    assert (command["status"], command["exitCode"], sorted(command["aggregatedOutput"].split())) == ("failed", 3, ["one", "two"])
    assert sorted(printed.split()) == ["one", "two"]
    assert begun == [item["id"] for item in items]


@pytest.mark.slow
async def test_an_interrupt_completes_the_running_command_and_is_answered_when_the_turn_is_over(tmp_path: Path) -> None:
    script = [call("shell", command=["sleep", "1000"]), say("after")]
    async with scene(script, tmp_path) as (_, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "go")
        await client.until(lambda m: m.get("params", {}).get("item", {}).get("type") == "commandExecution", "the command")
        with pytest.raises(RpcFailed, match=f"-32600: expected active turn id other but found {turn}"):
            await client.call("turn/interrupt", threadId=thread, turnId="other")
        assert await client.call("turn/interrupt", threadId=thread, turnId=turn) == {}
        ended = await client.turn_over(thread, turn)
        done = await client.until(
            lambda m: m.get("method") == "item/completed" and m["params"]["item"]["type"] == "commandExecution", "its end"
        )
        assert await client.call("turn/interrupt", threadId=thread, turnId=turn) == {}  # over already
        after = await client.run_turn(thread, "and now")
    assert (ended["status"], done["params"]["item"]["status"], after["status"]) == ("interrupted", "failed", "completed")


async def test_a_command_that_needs_a_yes_is_asked_for_and_runs(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made.txt"]), say("done")]
    config = {"approval_policy": "untrusted", "sandbox_mode": "workspace-write"}
    async with scene(script, tmp_path, config=config) as (_, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "go")
        question = await client.question()
        assert question["method"] == "item/commandExecution/requestApproval"
        assert question["params"]["command"] == "touch made.txt"
        assert not (work / "made.txt").exists()
        client.respond(question, {"decision": "accept"})
        ended = await client.turn_over(thread, turn)
        assert (await client.told("serverRequest/resolved"))["requestId"] == 0
        assert (ended["status"], (work / "made.txt").exists()) == ("completed", True)


@pytest.mark.slow
async def test_codexs_kinds_of_questions_are_taken_as_the_nearest_policy(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client, work):
        policies: list[str] = []
        for asks in (True, False):
            kinds = {"sandbox_approval": asks, "rules": False, "mcp_elicitations": True}
            started = await client.call("thread/start", cwd=str(work), approvalPolicy={"granular": kinds})
            policies.append(started["approvalPolicy"])
        assert policies == ["on-request", "never"]
        with pytest.raises(RpcFailed, match="approvalPolicy"):
            await client.call("thread/start", cwd=str(work), approvalPolicy={"granulr": {}})


async def test_everything_but_the_handshake_waits_for_it(tmp_path: Path) -> None:
    async with scene([], tmp_path, greets=False) as (_, client, _):
        with pytest.raises(RpcFailed, match="-32600: Not initialized"):
            await client.call("thread/list")
        hello = await client.call("initialize", clientInfo={"name": "probe", "version": "1"})
        assert hello["userAgent"].startswith("probe/0.166.0 (")
        with pytest.raises(RpcFailed, match="-32600: Already initialized"):
            await client.call("initialize", clientInfo={"name": "again", "version": "1"})
        with pytest.raises(RpcFailed, match="-32601: method not found: no/such"):
            await client.call("no/such")
        with pytest.raises(RpcFailed, match=r"-32602: Invalid params: Expected `str \| null`, got `int` - at `params.cwd`"):
            await client.call("thread/start", cwd=5)
        for line, code in (("{oops", -32700), ("[]", -32600), ('"x"', -32600)):
            before = len(client.messages)
            client.send_line(line)
            assert (await client.until(lambda m: "error" in m, "an error", before))["error"]["code"] == code


@pytest.mark.slow
@pytest.mark.parametrize("command", ["app-server", "proto"])
@pytest.mark.parametrize(("closing", "named"), [("<&-", "input"), (">&-", "output")])
def test_a_stream_that_is_closed_is_named(tmp_path: Path, command: str, closing: str, named: str) -> None:
    line = f"exec {shlex.join([sys.executable, '-m', 'understudy', command])} {closing}"
    env = CodexHome(tmp_path / ".codex").environment()
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=8 * WAIT_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"understudy: standard {named} is closed, but a program talks to this server through it\n",
    )


@pytest.mark.quick(1)
@pytest.mark.parametrize("command", ["app-server", "proto"])
async def test_a_signal_ends_the_server_with_exit_code_0(tmp_path: Path, command: str) -> None:
    """Settings may stand before the command, as the Python package writes them."""
    words = [sys.executable, "-m", "understudy", "--config", 'model_provider="scripted"', "-c", "model=x", command]
    env = CodexHome(tmp_path / ".codex").environment()
    async with LineClient(words, tmp_path, env) as client:
        if command == "app-server":
            await client.call("initialize", clientInfo={"name": "probe", "version": "1"})
        else:
            await client.until(lambda message: message["msg"]["type"] == "session_configured", "the session")
        client.terminate()
        client.exit_code = await client.ended()
    assert (client.exit_code, client.stderr) == (0, "")


async def test_settings_that_cannot_be_used_change_nothing_and_leave_no_thread_behind(tmp_path: Path) -> None:
    async with scene([say("one")], tmp_path) as (_, client, work):
        thread = await client.start_thread(work)
        for method in ("thread/resume", "thread/fork"):
            with pytest.raises(RpcFailed, match="No such file or directory"):
                await client.call(method, threadId=thread, cwd=str(tmp_path / "nowhere"))
        turn = await client.run_turn(thread, "go")
        listed = await client.call("thread/list")
    assert turn["status"] == "completed"
    assert [row["id"] for row in listed["data"]] == [thread]


@pytest.mark.slow
async def test_a_thread_is_listed_from_its_first_message_on(tmp_path: Path) -> None:
    async with scene([say("one"), say("two")], tmp_path) as (_, client, work):
        used, unused = await client.start_thread(work), await client.start_thread(work)
        assert (await client.call("thread/list"))["data"] == []
        assert (await client.call("thread/read", threadId=unused))["thread"]["id"] == unused
        await client.run_turn(used, "go")
        assert [row["id"] for row in (await client.call("thread/list", limit=1))["data"]] == [used]
        await client.run_turn(unused, "go")
        assert [row["id"] for row in (await client.call("thread/list"))["data"]] == [unused, used]


async def test_a_key_that_cannot_be_kept_is_a_clear_error(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client, _):
        (tmp_path / "home" / ".codex" / "understudy").write_text("in the way")
        with pytest.raises(RpcFailed, match="cannot be kept") as failed:
            await client.call("account/login/start", type="apiKey", apiKey="sk-" + "a" * 40)
    assert failed.value.code == -32600
    assert "a" * 40 not in failed.value.message + client.stderr
