"""Clients of ACP as people have them, offline: a command line, and the official packages, which check every message of ours by the
protocol's schema."""

import asyncio
import json
import os
import shlex
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_clients import CLIENTS, run_client, run_python_client, server_task
from tests.e2e.test_clients_exec import is_sleep, nothing_sleeps, some_seconds
from tests.support.environments import node_with, python_with
from understudy.testing import ScriptedModel, call, say
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

SLEEP = some_seconds()
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** End Patch"
PLAN = [{"step": "edit", "status": "in_progress"}]


class Model:
    def __init__(self, sleep: str = SLEEP) -> None:
        self._answers: Iterator[Entry] = iter(
            [
                call("update_plan", plan=PLAN),
                call("apply_patch", input=PATCH),
                say("edited", usage=(10, 2)),
                call("shell", command=["sleep", sleep]),
                call("shell", command=["touch", "asked.txt"]),
            ]
        )

    def __call__(self, request: ReceivedRequest) -> Entry:
        return next(self._answers, say("more"))  # the last prompt may join the turn that goes on


@pytest.mark.parametrize("package", ["agent-client-protocol==0.12.1", "agent-client-protocol==1.0.0rc3"])
async def test_the_python_package_drives_a_permission_a_diff_a_cancel_and_a_load_after_a_kill(package: str, tmp_path: Path) -> None:
    async with ScriptedModel(Model()) as model:
        task = acp_task(tmp_path, model.url)
        work = Path(task["cwd"])
        seen = await run_python_client(python_with(package), "acp_client.py", task)
    await assert_did_it(seen, work)


async def test_the_typescript_package_does_the_same_and_is_asked_for_what_is_not_saved(tmp_path: Path) -> None:
    folder = node_with("@agentclientprotocol/sdk@2.4.0")
    async with ScriptedModel(Model()) as model:
        task = acp_task(tmp_path, model.url) | {"unsaved": "typed\na\n"}
        work = Path(task["cwd"])
        seen = await run_client(["node", CLIENTS / "acp_client.mjs", json.dumps(task), folder])
    assert seen["read"] == [str(work / "a.txt")]
    assert seen["wrote"] == 0
    await assert_did_it(seen, work, typed="typed\n")


ACPX = ("acpx@0.19.1", "node@22.23.3")  # it needs a later Node than some have


async def test_the_command_line_acpx_is_asked_edits_cancels_and_goes_on_with_its_session_after_a_kill(tmp_path: Path) -> None:
    folder, sleep = node_with(*ACPX), some_seconds()
    async with ScriptedModel(Model(sleep)) as model:
        task = acp_task(tmp_path, model.url)
        work, env = Path(task["cwd"]), task["env"]
        program = [folder / "node_modules" / "node" / "bin" / "node", folder / "node_modules" / ".bin" / "acpx"]
        agent = shlex.join([task["command"], *task["args"]])
        options = ["--agent", agent, "--cwd", work, "--approve-all", "--format", "json", "--ttl", "60"]

        async def acpx(*words: str) -> list[Any]:
            done = await asyncio.create_subprocess_exec(
                *program, *options, *words, cwd=work, env=env, stdout=PIPE, stderr=PIPE, stdin=DEVNULL
            )
            async with asyncio.timeout(12 * WAIT_SECONDS):
                out, err = await done.communicate()
            assert done.returncode == 0, (words, out.decode(), err.decode())
            return [json.loads(line) for line in out.splitlines()]

        try:
            await acpx("sessions", "new")
            edited = await acpx("prompt", "edit")
            assert [message["result"] for message in edited if "stopReason" in message.get("result", ())] == [
                {"stopReason": "end_turn"}
            ]
            assert (work / "a.txt").read_text() == "b\n"
            told = [message["params"]["update"] for message in edited if message.get("method") == "session/update"]
            assert {"type": "diff", "path": str(work / "a.txt"), "oldText": "a\n", "newText": "b\n"} in contents(told)
            assert {"fs/read_text_file", "session/request_permission"} <= methods(edited)
            waiting = asyncio.create_task(acpx("prompt", "wait"))
            await until_it_sleeps(sleep)
            await acpx("cancel")
            assert (await waiting)[-1]["result"] == {"stopReason": "cancelled"}
            await nothing_sleeps(sleep)
            for pid in processes_of(env["HOME"], "understudy"):
                os.kill(pid, signal.SIGKILL)
            went_on = await acpx("prompt", "more")
            assert went_on[-1]["result"] == {"stopReason": "end_turn"}
            assert {"session/resume", "session/request_permission"} <= methods(went_on)  # its own way of loading it again
            assert (work / "asked.txt").exists()
            assert len((await acpx("sessions", "list"))[0]["sessions"]) == 1
        finally:
            for pid in processes_of(env["HOME"], ""):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def processes_of(home: str, word: str) -> list[int]:
    """Those that were started for this test, by the home that they were given."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            given = (folder / "environ").read_bytes().split(b"\0")
            if f"HOME={home}".encode() in given and word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def until_it_sleeps(seconds: str) -> None:
    async with asyncio.timeout(8 * WAIT_SECONDS):
        while not any(is_sleep(process, seconds) for process in Path("/proc").iterdir() if process.name.isdecimal()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def methods(messages: list[Any]) -> set[str]:
    return {message["method"] for message in messages if "method" in message}


def acp_task(tmp_path: Path, url: str) -> dict[str, Any]:
    task = server_task(tmp_path, url, sandbox_mode="workspace-write")
    task |= {"command": sys.executable, "args": ["-m", "understudy", "acp"], "seconds": 10 * WAIT_SECONDS}
    Path(task["cwd"], "a.txt").write_text("a\n")
    return task


async def assert_did_it(seen: dict[str, Any], work: Path, typed: str = "") -> None:
    """A permission, a diff, a cancel, and all of it again after a kill, where the question that was open is asked once more."""
    assert seen["version"] == 1
    assert seen["modes"] == ["untrusted", "on-failure", "on-request", "never", "plan", "full-access"]
    assert (seen["first"], seen["second"], seen["third"]) == ("end_turn", "cancelled", "end_turn")
    assert {"allow_once", "allow_always", "reject_once"} == set(seen["asked"][0])
    assert (work / "a.txt").read_text() == f"{typed}b\n"
    diff = {"type": "diff", "path": str(work / "a.txt"), "oldText": "a\n", "newText": f"{typed}b\n"}
    assert diff in contents(seen["before"])
    assert "plan" in kinds(seen["before"])
    await nothing_sleeps(SLEEP)

    assert seen["listed"] == [seen["session"]]
    replayed = kinds(seen["replayed"])
    assert replayed[0] == "user_message_chunk"
    assert [text(update) for update in seen["replayed"] if update["sessionUpdate"] == "user_message_chunk"] == [
        "edit",
        "wait",
        "ask",
    ]
    assert {"plan", "tool_call", "tool_call_update", "agent_message_chunk"} <= set(replayed)
    assert diff in contents(seen["replayed"])
    assert (work / "asked.txt").exists()


def kinds(updates: list[Any]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def contents(updates: list[Any]) -> list[Any]:
    """With what the schema requires, and nothing that a newer library adds."""
    found = [part for update in updates if isinstance(update.get("content"), list) for part in update["content"]]
    return [{name: part.get(name) for name in ("type", "path", "oldText", "newText")} for part in found]


def text(update: Any) -> str:
    return update["content"]["text"]
