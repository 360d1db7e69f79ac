"""Editors (ACP) and clients of the app server on a machine of their own, in conversations that stand on a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_client import AcpClient
from tests.support.app_client import AppClient
from tests.support.machines import Machines, content, machines
from understudy.testing import HOLD, CodexHome, call, deltas, say

ASKING = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
LONG = {"understudy.cluster.lease_seconds": 300}
ASKS = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")


def home_of_editor(those: Machines) -> Path:
    """A machine that serves nobody, with the database of the others."""
    home = those.folder / "desk" / ".codex"
    CodexHome(home, those.model, config={**those.config, "understudy.cluster.host_name": "desk"})
    return home


@pytest.mark.slow
async def test_an_editor_has_a_session_of_a_worker(tmp_path: Path) -> None:
    script = [say("hello"), ASKS, say("Made.")]
    async with machines(tmp_path, script, workers=("a",), fronts=("x",), config=ASKING) as those:
        work = those.work("w")
        x = those.rest("x")
        name = (await x.create(work, "begin"))["id"]
        stream = await x.stream(name)
        await stream.until("task_complete")
        async with AcpClient(home_of_editor(those), those.folder) as editor:
            await editor.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
            assert editor.said() == "hello"
            number = editor.ask_prompt(name, "make it")
            editor.choose(await editor.question(), "approved")
            assert await editor.answer(number) == {"stopReason": "end_turn"}
            assert editor.said() == "helloMade."
        await stream.until("task_complete")
        assert (work / "made").exists()


@pytest.mark.slow
async def test_an_editor_is_told_of_a_turn_that_was_cut_off_and_goes_on(tmp_path: Path) -> None:
    script = [say("hello"), deltas(["half ", HOLD]), say("more")]
    async with machines(tmp_path, script, workers=("a",), fronts=("x",), config=LONG) as those:
        work = those.work("w")
        x = those.rest("x")
        name = (await x.create(work, "begin"))["id"]
        await (await x.stream(name)).until("task_complete")
        async with AcpClient(home_of_editor(those), those.folder) as editor:
            await editor.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
            number = editor.ask_prompt(name, "and")
            await editor.until(lambda _: editor.said().endswith("half "), "what was said of the answer")
            await those.servers["a"].kill()
            await those.servers["a"].start()
            assert await editor.answer(number) == {"stopReason": "cancelled"}
            assert await editor.prompt(name, "go on") == "end_turn"
            assert editor.said().endswith("more")


@pytest.mark.slow
async def test_an_editor_that_died_is_replaced_by_another_that_gets_the_question(tmp_path: Path) -> None:
    async with machines(tmp_path, [ASKS, say("Made.")], workers=("a",), fronts=("x",), config={**LONG, **ASKING}) as those:
        work = those.work("w")
        x = those.rest("x")
        name = (await x.create(work))["id"]
        home = home_of_editor(those)
        async with AcpClient(home, those.folder) as editor:
            await editor.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
            editor.ask_prompt(name, "make it")
            await editor.question()
            await editor.kill()
        await those.servers["a"].kill()
        async with AcpClient(home, those.folder) as editor:
            await editor.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
            editor.choose(await editor.question(), "approved")
            await those.until("SELECT count(*) > 0 FROM inbox", True)
            await those.servers["a"].start()
            await editor.update("agent_message_chunk")
            assert editor.said() == "Made."
        assert (work / "made").exists()


@pytest.mark.slow
async def test_an_editor_cancels_a_turn_of_a_worker(tmp_path: Path) -> None:
    script = [deltas(["half ", HOLD])]
    async with machines(tmp_path, script, workers=("a",), fronts=("x",)) as those:
        work = those.work("w")
        name = (await those.rest("x").create(work))["id"]
        async with AcpClient(home_of_editor(those), those.folder) as editor:
            await editor.call("session/load", sessionId=name, cwd=str(work), mcpServers=[])
            number = editor.ask_prompt(name, "and")
            await editor.update("agent_message_chunk")
            editor.send({"method": "session/cancel", "params": {"sessionId": name}})
            assert await editor.answer(number) == {"stopReason": "cancelled"}


@pytest.mark.slow
async def test_a_client_of_the_app_server_has_a_thread_of_a_worker(tmp_path: Path) -> None:
    script = [say("hello"), ASKS, say("Made."), deltas(["half ", HOLD]), say("more")]
    async with machines(tmp_path, script, workers=("a",), fronts=("x",), config={**LONG, **ASKING}) as those:
        work = those.work("w")
        x = those.rest("x")
        name = (await x.create(work, "begin"))["id"]
        await (await x.stream(name)).until("task_complete")
        async with AppClient(home_of_editor(those), those.folder) as client:
            resumed = await client.call("thread/resume", threadId=name)
            assert len(resumed["thread"]["turns"]) == 1
            turn = await client.start_turn(name, "make it")
            question: Any = await client.question()
            client.respond(question, {"decision": "accept"})
            assert (await client.turn_over(name, turn))["status"] == "completed"
            assert (work / "made").exists()
            turn = await client.start_turn(name, "and")
            await client.told("item/agentMessage/delta", delta="half ")
            await those.servers["a"].kill()
            await those.servers["a"].start()
            assert (await client.turn_over(name, turn))["status"] == "interrupted"
            turn = await client.start_turn(name, "more")
            assert (await client.turn_over(name, turn))["status"] == "completed"
            listed = (await client.call("thread/list"))["data"]
            assert [row["id"] for row in listed] == [name]


@pytest.mark.slow
async def test_a_turn_that_a_client_of_the_app_server_interrupts_is_over(tmp_path: Path) -> None:
    async with machines(tmp_path, [deltas(["half ", HOLD]), say("more")], workers=("a",), fronts=("x",)) as those:
        work = those.work("w")
        name = (await those.rest("x").create(work))["id"]
        async with AppClient(home_of_editor(those), those.folder) as client:
            await client.call("thread/resume", threadId=name)
            turn = await client.start_turn(name, "and")
            await client.told("item/agentMessage/delta", delta="half ")
            await client.call("turn/interrupt", threadId=name, turnId=turn)
            assert (await client.turn_over(name, turn))["status"] == "interrupted"
        x = await those.client("x")
        assert content(await x.result("codex-reply", {"threadId": name, "prompt": "more"})) == "more"
