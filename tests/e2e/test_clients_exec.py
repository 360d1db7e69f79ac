"""The packages that start `codex exec`, as people have them, offline, with a link named `codex` to our program."""

import asyncio
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import CLIENTS, run_client, run_python_client
from tests.golden_exec.play import PNG
from tests.support.environments import node_with, python_with
from understudy.testing import Script, ScriptedModel, call, cut_after, say, status
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"], "additionalProperties": False}
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+one\n*** End Patch\n"
LOUD = ["bash", "-lc", "yes | head -c 200000; pwd"]


def some_seconds() -> str:
    """That a command sleeps which is to be aborted. It is found by them among all of the machine, so nobody else has the same."""
    return str(10_000 + secrets.randbelow(10_000_000))


SLEEP = {client: some_seconds() for client in ("typescript", "python", "agents")}


def script(client: str) -> Script:
    more = [say("from the tool")] if client == "agents" else []
    return [
        call("apply_patch", call_id="c1", input=PATCH),
        call("shell", call_id="c2", command=LOUD),
        say("one", usage=(10, 1)),
        say('{"answer": "two"}', usage=(20, 2)),
        cut_after(say("thr")),
        say("three", usage=(30, 3)),
        status(401, {"error": {"message": "Incorrect API key"}}),
        call("shell", command=["sleep", SLEEP[client]]),
        *more,
    ]


def task_in(tmp_path: Path, url: str) -> dict[str, Any]:
    """The environment holds nothing but where the configuration is: not even a path."""
    home, work, more = tmp_path / "home", tmp_path / "work", tmp_path / "more"
    for folder in (home, work, more):
        folder.mkdir()
    codex = tmp_path / "codex"
    codex.symlink_to(Path(sys.executable).parent / "understudy")
    (tmp_path / "p.png").write_bytes(PNG)
    kept = {name: value for name, value in os.environ.items() if name.startswith("UNDERSTUDY_")}
    return {
        "codex": str(codex),
        "url": url,
        "env": {"CODEX_HOME": str(home), **kept},
        "cwd": str(work),
        "more": str(more),
        "image": str(tmp_path / "p.png"),
        "schema": SCHEMA,
    }


async def run(client: str, task: dict[str, Any]) -> Any:
    match client:
        case "typescript":
            folder = node_with("@openai/codex-sdk@0.163.0", "--omit=optional")
            return await run_client(["node", CLIENTS / "codex_sdk.mjs", json.dumps(task), folder])
        case "python":
            return await run_python_client(python_with("openai-codex-sdk==0.1.11"), "codex_sdk_python.py", task)
        case _:
            python = python_with("openai-agents==0.24.0")
            return await run_python_client(python, "agents_codex.py", task, OPENAI_AGENTS_DISABLE_TRACING="1")


@pytest.mark.parametrize("client", ["typescript", "python", "agents"])
async def test_a_package_starts_streams_resumes_shapes_shows_fails_and_aborts(tmp_path: Path, client: str) -> None:
    async with ScriptedModel(script(client)) as model:
        task = task_in(tmp_path, model.url)
        seen = await run(client, task)
        contents = [_last_user(request) for request in model.requests]
        headers = model.received[0].headers
    assert (headers["authorization"], headers["originator"][:9]) == ("Bearer sk-of-a-test", "codex_sdk")

    first = seen["first"]
    assert (first["answer"], first["usage"]["input_tokens"]) == ("one", 12)
    kinds = [item["type"] for item in first["items"]]
    assert kinds == ["file_change", "command_execution", "agent_message"]
    assert first["items"][0]["status"] == "completed"
    assert first["items"][1]["aggregated_output"].endswith(f"{task['cwd']}\n")
    assert (Path(task["cwd"]) / "made.txt").read_text() == "one\n"

    assert json.loads(seen["second"]) == {"answer": "two"}
    assert [part["type"] for part in contents[3]] == ["input_image", "input_image", "input_text"]
    assert contents[3][2]["text"] == "second\n\npart"

    assert len(set(seen["ids"])) == 1
    types = [event["type"] for event in seen["third"]]
    assert (types[:2], types[-1]) == (["thread.started", "turn.started"], "turn.completed")
    assert "error" not in types, "what is tried again is no failure"
    said = [event["item"] for event in seen["third"] if event["type"] == "item.completed"]
    assert said[-1]["text"] == "three"
    assert [part["type"] for part in contents[5]] == ["input_image", "input_text"]

    assert "HTTP 401: Incorrect API key" in seen["failure"]
    assert seen["aborted"] != "not at all"
    await nothing_sleeps(SLEEP[client])
    if client == "agents":
        assert "from the tool" in str(seen["tool"])


def _last_user(request: Any) -> list[Any]:
    return next(entry["content"] for entry in reversed(request["input"]) if entry.get("role") == "user")


async def nothing_sleeps(seconds: str) -> None:
    """Within the usual bound: whoever aborts does not wait for it."""
    async with asyncio.timeout(2 * WAIT_SECONDS):
        while any(is_sleep(process, seconds) for process in Path("/proc").iterdir() if process.name.isdecimal()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def is_sleep(process: Path, seconds: str) -> bool:
    try:
        return (process / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode()
    except OSError:
        return False
