"""Another process takes a conversation between our looking who holds it and our taking it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.scenes import answered, failed
from tests.e2e.talking import Stream, create, structured
from tests.support.overtaken_log import OvertakenLog
from tests.support.server_here import ServerHere
from understudy.testing import Call, McpProcess, Script, ScriptedModel, call, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
TOUCH = call("shell", command=["touch", "made"])


class Scene:
    """A turn waits for an answer, its process is gone. `there` takes it up when `here` has seen that nobody has it."""

    def __init__(self, here: ServerHere, there: McpProcess, log: OvertakenLog, conversation: str) -> None:
        self.here = here
        self.there = there
        self.log = log
        self.conversation = conversation
        self.waits_there: Call | None = None

    async def take_up_there(self) -> None:
        self.waits_there = self.there.call_tool("codex-reply", threadId=self.conversation)
        await self.there.next_question()

    def approve(self, decision: str) -> Call:
        arguments = {"conversation_id": self.conversation, "call_id": "call1", "decision": decision}
        return self.here.call_tool("conversationApprove", arguments)


@asynccontextmanager
async def a_scene(folder: Path, script: Script) -> AsyncGenerator[Scene]:
    home = folder / "home"
    home.mkdir()
    logs: list[OvertakenLog] = []

    def open_log(folder: Path, loop: asyncio.AbstractEventLoop) -> OvertakenLog:
        logs.append(OvertakenLog(folder, loop))
        return logs[0]

    async with ScriptedModel(script) as model:
        before = McpProcess(model.url, cwd=folder, home=home, config=ASKING)
        async with before:
            conversation = await create(before, prompt="1")
            Stream(before, conversation)
            await before.next_question()
            await before.kill()
        there = McpProcess(model.url, cwd=folder, home=home, config=ASKING)
        async with there, ServerHere(model.url, cwd=folder, home=home, config=ASKING, open_log=open_log) as here:
            await Stream(here, conversation).snapshot()
            scene = Scene(here, there, logs[0], conversation)
            yield scene


@pytest.mark.parametrize(("decision", "made"), [("approved", True), ("denied", False)])
async def test_an_answer_goes_to_the_process_that_has_just_taken_the_turn_up(tmp_path: Path, decision: str, made: bool) -> None:
    async with a_scene(tmp_path, [TOUCH, say("done")]) as scene:
        scene.log.overtake = scene.take_up_there
        assert structured(await scene.approve(decision)) == {"status": "ok"}
        assert scene.log.overtake is None
        assert scene.waits_there is not None
        assert await scene.waits_there == answered("done", scene.conversation)
        assert (tmp_path / "made").exists() is made


async def test_an_interrupt_goes_to_the_process_that_has_just_taken_the_turn_up(tmp_path: Path) -> None:
    async with a_scene(tmp_path, [TOUCH]) as scene:
        await scene.take_up_there()
        stopped = await scene.here.call_tool("conversationInterrupt", conversation_id=scene.conversation)
        assert structured(stopped) == {"status": "ok", "interrupted": True}
        assert scene.waits_there is not None
        assert await scene.waits_there == failed("Turn interrupted", scene.conversation)
        assert not (tmp_path / "made").exists()


async def test_an_answer_comes_too_late_where_the_turn_was_ended_there(tmp_path: Path) -> None:
    async with a_scene(tmp_path, [TOUCH]) as scene:

        async def end_there() -> None:
            await scene.take_up_there()
            await scene.there.call_tool("conversationInterrupt", conversation_id=scene.conversation)

        scene.log.overtake = end_there
        refused = structured(await scene.approve("approved"))
        assert refused["status"] == "error"
        assert "no open question" in refused["message"]
        assert not (tmp_path / "made").exists()
