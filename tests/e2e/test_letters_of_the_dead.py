"""Ops that were left for another process, where one of the two is killed before they were read."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.e2e.scenes import answered, kinds, text_of, users_in
from tests.e2e.talking import Stream, create, listed, structured
from tests.support.pausing import go_on, pause
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt
from understudy.store.log import Store
from understudy.store.opening import open_store
from understudy.testing import Call, McpProcess, Script, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
TOUCH = call("shell", command=["touch", "made"])


class Scene:
    """The first process has a turn that waits for an answer, and is stopped; the second has left an interrupt for it."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.folder = folder
        self.model = model
        self.conversation = ""

    def process(self) -> McpProcess:
        return McpProcess(self.model.url, cwd=self.folder, home=self.folder / "home", config=ASKING)

    @property
    def made(self) -> bool:
        return (self.folder / "made").exists()

    async def interrupted(self, first: McpProcess, second: McpProcess) -> Call:
        self.conversation = await create(first, prompt="1")
        await Stream(second, self.conversation).snapshot()
        await second.next_request("elicitation/create")
        await pause(first.process.pid, first.home)
        interrupt = second.call_tool("conversationInterrupt", conversation_id=self.conversation)
        with closing(open_store(self.folder / "home", asyncio.get_running_loop())) as log:
            async with asyncio.timeout(WAIT_SECONDS):
                while not await self._left(log):  # noqa: ASYNC110  # nothing tells of it
                    await asyncio.sleep(0.01)
        return interrupt

    async def _left(self, log: Store) -> bool:
        letters = await log.letters(ConversationId(self.conversation))
        return [letter.op.turn for letter in letters if isinstance(letter.op, Interrupt)] == ["1"]


@asynccontextmanager
async def a_scene(folder: Path, script: Script) -> AsyncGenerator[Scene]:
    (folder / "home").mkdir()
    async with ScriptedModel(script) as model:
        yield Scene(folder, model)


async def test_an_interrupt_of_a_process_that_was_killed_ends_the_turn_all_the_same(tmp_path: Path) -> None:
    async with a_scene(tmp_path, [TOUCH, say("next")]) as scene, scene.process() as first:
        second = scene.process()
        await second.start()
        await second.initialize()
        await scene.interrupted(first, second)
        await second.kill()
        go_on(first.process.pid)
        stream = Stream(first, scene.conversation, after=0)
        await stream.until("task_complete")
        assert await first.call_tool("codex-reply", threadId=scene.conversation, prompt="2") == answered("next", scene.conversation)
        assert not scene.made


@pytest.mark.slow
async def test_an_interrupt_that_a_killed_process_had_not_read_is_done_by_whoever_left_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path, [TOUCH]) as scene, scene.process() as second:
        first = scene.process()
        await first.start()
        await first.initialize()
        interrupt = await scene.interrupted(first, second)
        await first.kill()
        assert structured(await interrupt) == {"status": "ok", "interrupted": True}
        [row] = await listed(second)
        assert (row["status"], row["pending"]) == ("idle", [])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["a message", "waiting on", "an answer"])
async def test_with_both_killed_a_third_ends_the_turn_that_was_to_be_interrupted(tmp_path: Path, how: str) -> None:
    """It is not taken up again: whoever stopped it was told that it would end."""
    script = [TOUCH, say("next")] if how == "a message" else [TOUCH]
    async with a_scene(tmp_path, script) as scene:
        first, second = scene.process(), scene.process()
        for process in (first, second):
            await process.start()
            await process.initialize()
        await scene.interrupted(first, second)
        await second.kill()
        await first.kill()
        async with scene.process() as third:
            thread = scene.conversation
            match how:
                case "a message":
                    assert await third.call_tool("codex-reply", threadId=thread, prompt="2") == answered("next", thread)
                    assert users_in(scene.model.requests[1]) == ["1", "2"]
                case "waiting on":
                    result = await third.call_tool("codex-reply", threadId=thread)
                    assert (result["error"], result["structuredContent"]["threadId"]) == ("Turn interrupted", thread)
                    assert "the server that ran this turn ended" in result["content"][1]["text"]
                case _:
                    arguments = {"conversation_id": thread, "call_id": "call1", "decision": "approved"}
                    assert text_of(await third.call_tool("conversationApprove", arguments)).count("no open question")
            snapshot = await Stream(third, thread, after=0).snapshot()
            ends = [event for event in snapshot if event["msg"]["type"] == "error"]
            assert [event["msg"]["message"] for event in ends] == ["Turn interrupted"]
            assert kinds([event["msg"] for event in snapshot]).count("task_started") == (2 if how == "a message" else 1)
            assert third.questions == []
        assert not scene.made
