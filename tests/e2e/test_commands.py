"""What a command may and may not do, and what the model is told of it, contained and not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import is_alive, kinds, scene, text_of, told_to_model
from tests.support.interpreter import PLAIN_PYTHON
from understudy.testing import call, say

MODES = pytest.mark.parametrize(
    "mode", ["danger-full-access", "workspace-write", pytest.param("read-only", marks=pytest.mark.slow)]
)


async def outcome(folder: Path, mode: str = "danger-full-access", **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The end event of one command and what the model was told."""
    async with scene([call("shell", **arguments), say("ok")], folder, config={"sandbox_mode": mode}) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        assert text_of(await call_) == "ok"
        end = next(event for event in client.events(call_) if event["type"] == "exec_command_end")
        return end, json.loads(told_to_model(model.requests[1]))


@pytest.mark.slow
@MODES
async def test_a_command_that_takes_too_long_is_ended_with_its_children_and_keeps_its_output(tmp_path: Path, mode: str) -> None:
    run = ["sh", "-c", "echo begun; sleep 60 & echo $! > /dev/null; wait"]
    end, told = await outcome(tmp_path, mode, command=run, timeout=2500)
    assert end["exit_code"] == told["metadata"]["exit_code"] == 124
    assert end["stdout"] == "begun\n"
    assert told["output"] == "begun\ncommand timed out after 2500 milliseconds\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "own", "milliseconds"),
    [
        ({"understudy.commands.timeout_seconds": 1}, {}, 1000),
        ({"understudy.commands.timeout_seconds": 1}, {"timeout": 300}, 300),
        ({"understudy.commands.timeout_seconds": 1}, {"timeout_ms": 1400}, 1400),
        ({"understudy.sandbox.limits.seconds": 1}, {}, 1000),
        ({"understudy.sandbox.limits.seconds": 1}, {"timeout": 50_000}, 1000),
    ],
)
async def test_the_limit_is_the_call_s_own_else_the_configured_one_and_never_beyond_the_cap(
    tmp_path: Path, config: dict[str, Any], own: dict[str, Any], milliseconds: int
) -> None:
    settings = {"sandbox_mode": "workspace-write", **config}
    script = [call("shell", command=["sleep", "60"], **own), say("ok")]
    async with scene(script, tmp_path, config=settings) as (model, client):
        await client.call_tool("codex", prompt="go")
        told = json.loads(told_to_model(model.requests[1]))
        assert (told["metadata"]["exit_code"], told["output"]) == (124, f"command timed out after {milliseconds} milliseconds\n")
        assert milliseconds / 1000 <= told["metadata"]["duration_seconds"] < 50


@pytest.mark.quick(1)
@pytest.mark.parametrize(("config", "milliseconds"), [({}, 60_000), ({"understudy.commands.timeout_seconds": 90}, 90_000)])
async def test_the_model_is_told_how_long_a_command_has(tmp_path: Path, config: dict[str, Any], milliseconds: int) -> None:
    async with scene([say("ok")], tmp_path, config=config) as (model, client):
        await client.call_tool("codex", prompt="go")
        shell = next(tool["function"] for tool in model.requests[0]["tools"] if tool["function"]["name"] == "shell")
        assert shell["parameters"]["properties"]["timeout"]["description"].endswith(f"default {milliseconds}.")


@pytest.mark.slow
async def test_a_command_without_a_limit_of_its_own_has_a_minute(tmp_path: Path) -> None:
    async with scene([call("shell", command=["sh", "-c", "sleep 12; echo through"]), say("ok")], tmp_path) as (model, client):
        result = client.call_tool("codex", prompt="go")
        await client.event("exec_command_output_delta", result)
        await result
        assert json.loads(told_to_model(model.requests[1]))["output"] == "through\n"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, -1, 10**9, 1.5, "60"])
async def test_a_limit_that_is_none_is_refused_by_name(tmp_path: Path, seconds: object) -> None:
    async with scene([], tmp_path, config={"understudy.commands.timeout_seconds": seconds}) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert result["isError"] is True
        assert "`understudy.commands.timeout_seconds`" in text_of(result)


@pytest.mark.slow
async def test_a_grandchild_that_is_left_behind_does_not_keep_the_turn_waiting_nor_live_on(tmp_path: Path) -> None:
    run = ["sh", "-c", "sleep 60 & echo $! > child; echo done"]
    end, told = await outcome(tmp_path, command=run, timeout=50_000)
    assert (end["exit_code"], told["output"]) == (0, "done\n")
    assert not is_alive(int((tmp_path / "child").read_text()))


@pytest.mark.slow
async def test_a_command_that_breaks_a_limit_keeps_its_output_and_the_model_is_told_why(tmp_path: Path) -> None:
    eat = "import os, time\nprint('begun', flush=True)\nos.fork(); os.fork()\nx = bytearray(b'x') * (60 << 20)\ntime.sleep(9)"
    config = {"sandbox_mode": "workspace-write", "understudy.sandbox.limits.memory_mb": 150}
    run = call("shell", command=[PLAIN_PYTHON, "-c", eat], timeout=50_000)
    async with scene([run, say("ok")], tmp_path, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        end = next(event for event in client.events(call_) if event["type"] == "exec_command_end")
        told = json.loads(told_to_model(model.requests[1]))
    reason = "The command was ended because it used more memory than the limit of the sandbox allows.\n"
    assert (end["exit_code"], end["stdout"], end["stderr"]) == (137, "begun\n", reason)
    assert told["output"] == f"begun\n{reason}"


@pytest.mark.slow
@MODES
async def test_there_is_nothing_to_read_on_standard_input(tmp_path: Path, mode: str) -> None:
    end, told = await outcome(tmp_path, mode, command=["sh", "-c", "cat; read x; echo $?"], timeout=50_000)
    assert (end["exit_code"], told["output"]) == (0, "1\n")


async def test_the_folder_is_the_session_s_or_the_call_s(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    folders: list[dict[str, str]] = [{}, {"workdir": "sub"}, {"workdir": str(tmp_path / "sub")}]
    calls = [call("shell", call_id=str(n), command=["pwd"], **folder) for n, folder in enumerate(folders)]
    async with scene([*calls, say("ok")], tmp_path) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        printed = [event["stdout"] for event in client.events(call_) if event["type"] == "exec_command_end"]
        assert printed == [f"{tmp_path}\n", f"{tmp_path / 'sub'}\n", f"{tmp_path / 'sub'}\n"]


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("run", "code"), [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "no-such-program-at-all"], 127), (["sh", "-c", "kill -9 $$"], 137)]
)
async def test_the_exit_code_is_the_real_one(tmp_path: Path, run: list[str], code: int) -> None:
    end, told = await outcome(tmp_path, "workspace-write", command=run)
    assert end["exit_code"] == told["metadata"]["exit_code"] == code


@pytest.mark.slow
async def test_bytes_that_are_no_text_are_told_as_well_as_can_be(tmp_path: Path) -> None:
    async with scene([call("shell", command=["printf", "a\\377b\\000c"]), say("ok")], tmp_path) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        chunk = b"".join(bytes(e["chunk"]) for e in client.events(call_) if e["type"] == "exec_command_output_delta")
        assert chunk == b"a\xffb\x00c", "live output is exact"
        assert json.loads(told_to_model(model.requests[1]))["output"] == "a\ufffdb\x00c"


@pytest.mark.quick(1)
@pytest.mark.parametrize(("mode", "inside"), [("workspace-write", True), ("read-only", False)])
async def test_writing_is_contained(tmp_path: Path, mode: str, inside: bool) -> None:
    run = ["sh", "-c", "echo x > inside; echo y > /var/tmp/understudy-outside; true"]
    await outcome(tmp_path, mode, command=run)
    assert (tmp_path / "inside").exists() == inside
    assert not Path("/var/tmp/understudy-outside").exists()


@pytest.mark.slow
async def test_under_never_a_refusal_is_told_and_nobody_is_asked(tmp_path: Path) -> None:
    run = ["sh", "-c", "echo y > /var/tmp/understudy-outside"]
    async with scene([call("shell", command=run), say("ok")], tmp_path, config={"sandbox_mode": "workspace-write"}) as (
        model,
        client,
    ):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        assert "exec_approval_request" not in kinds(client.events(call_))
        assert "sandbox" in told_to_model(model.requests[1])


@pytest.mark.slow
async def test_the_private_tmp_is_kept_between_commands_of_a_session_and_not_shared(tmp_path: Path) -> None:
    script = [call("shell", command=["sh", "-c", "echo kept > /tmp/note"]), call("shell", command=["cat", "/tmp/note"]), say("ok")]
    config = {"sandbox_mode": "workspace-write"}
    async with scene([*script, call("shell", command=["cat", "/tmp/note"]), say("ok")], tmp_path, config=config) as (model, client):
        await client.call_tool("codex", prompt="go")
        told = [message["content"] for message in model.requests[2]["messages"] if message["role"] == "tool"]
        assert json.loads(told[1])["output"] == "kept\n"
        await client.call_tool("codex", prompt="another")
        told = [message["content"] for message in model.requests[4]["messages"] if message["role"] == "tool"]
        assert json.loads(told[0])["metadata"]["exit_code"] != 0
        assert not Path("/tmp/note").exists()
