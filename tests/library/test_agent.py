"""The library, with the agent in this process and with a server's: the same programs see the same."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_server import HttpServer
from understudy import Question, Understudy, UnderstudyError
from understudy.library.agent import NOBODY
from understudy.testing import HOLD, CodexHome, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

Agents = Callable[..., Any]
FREE = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
ASKING = {"approval_policy": "on-request", "sandbox_mode": "read-only"}
ESCALATED = call("shell", command=["touch", "made"], with_escalated_permissions=True, justification="it is needed")


@pytest.fixture(params=["here", "at a server"])
def agents(request: pytest.FixtureRequest, tmp_path: Path) -> Agents:
    @asynccontextmanager
    async def agent(answers: list[Any], config: dict[str, Any] = FREE) -> AsyncGenerator[tuple[Understudy, Path, ScriptedModel]]:
        async with ScriptedModel(answers) as model:
            if request.param == "here":
                home = CodexHome(tmp_path / "home", model, config=config)
                work = tmp_path / "work"
                work.mkdir()
                async with Understudy(home=home.path, folder=work) as understudy:
                    yield understudy, work, model
            else:
                async with HttpServer(tmp_path, model, config=config) as server:
                    url = f"http://127.0.0.1:{server.port}"
                    async with Understudy(url=url, token=server.token, folder=server.cwd) as understudy:
                        yield understudy, server.cwd, model

    return agent


async def test_a_task_is_run_and_its_items_come_typed(agents: Agents) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"
    async with agents([call("shell", command=["echo", "hi"]), call("apply_patch", input=patch), say("Done.")]) as (agent, work, _):
        result = await agent.run("Do it")
        assert (result.status, result.text, (work / "a.txt").read_text()) == ("done", "Done.", "x\n")
        assert [item.kind for item in result.items] == ["user_message", "command", "patch", "message", "turn_end"]
        command = result.items[1]
        assert (command.argv, command.output, command.exit_code) == (("echo", "hi"), "hi\n", 0)
        assert [file["path"] for file in result.report["files"]] == [str(work / "a.txt")]


async def test_a_conversation_goes_on_and_tells_its_history(agents: Agents) -> None:
    async with agents([say("One."), say("Two.")]) as (agent, _, _model):
        conversation = await agent.start("First")
        assert (await conversation.result()).text == "One."
        await conversation.send("Second")
        assert (await conversation.result()).text == "Two."
        again = await agent.open(conversation.id)
        told = [item.text for item in await again.history() if item.status == "done" and hasattr(item, "text")]
        assert told == ["First", "One.", "One.", "Second", "Two.", "Two."]
        await again.rename("A name")
        assert [(row.id, row.title) for row in await agent.conversations()] == [(conversation.id, "A name")]
        await again.delete()
        with pytest.raises(UnderstudyError) as refused:
            await agent.open(conversation.id)
        assert refused.value.code == "not_found"


async def test_growing_items_end_as_the_finished_ones(agents: Agents) -> None:
    async with agents([deltas(["one ", HOLD, "two"])]) as (agent, _, model):
        conversation = await agent.start("Count")
        seen: list[str] = []
        async with asyncio.timeout(WAIT_SECONDS):
            async for item in conversation.items(growing=True):
                if item.kind == "message":
                    seen.append(item.text)
                    model.release()
        assert seen[0] == "one "
        assert seen[-1] == "one two"
        assert all(later.startswith(earlier) for earlier, later in pairwise(seen))


@pytest.mark.parametrize(("answer", "made"), [("approve", True), ("deny", False)])
async def test_a_question_is_answered_by_the_program(agents: Agents, answer: Any, made: bool) -> None:
    async with agents([ESCALATED, say("So be it.")], ASKING) as (agent, work, _):
        asked: list[Question] = []

        async def decide(question: Question) -> Any:
            asked.append(question)
            return answer

        result = await agent.run("Make it", on_question=decide)
        assert [question.asked.command for question in asked] == [("touch", "made")]
        assert ((work / "made").exists(), result.text) == (made, "So be it.")


async def test_who_answers_nothing_says_no_and_the_model_is_told(agents: Agents) -> None:
    async with agents([ESCALATED, say("A pity.")], ASKING) as (agent, work, model):
        assert (await agent.run("Make it")).text == "A pity."
        assert not (work / "made").exists()
        assert NOBODY in str(model.received[-1].body)


async def test_a_turn_is_interrupted(agents: Agents) -> None:
    async with agents([deltas(["one ", HOLD, "two"])]) as (agent, _, model):
        conversation = await agent.start("Count")
        await model.next_request(1)
        assert await conversation.interrupt()
        assert (await conversation.result()).status == "cut"
        assert not await conversation.interrupt()


async def test_what_is_wrong_is_told_by_code_and_words(agents: Agents) -> None:
    async with agents([]) as (agent, _, _model):
        with pytest.raises(UnderstudyError, match="nope") as wrong:
            await agent.start("Do it", nope=1)
        assert wrong.value.code == "bad_request"
        with pytest.raises(UnderstudyError) as unknown:
            await agent.open("0" * 32)
        assert unknown.value.code == "not_found"
        question = Question.__new__(Question)
        with pytest.raises(UnderstudyError, match="give one of approve"):
            await question.answer("maybe")  # pyright: ignore[reportArgumentType]


async def test_an_answer_by_a_schema_comes_as_data(agents: Agents) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    async with agents([say('{"n": 3}')]) as (agent, _, _model):
        assert (await agent.run("How many?", output_schema=schema)).output == {"n": 3}


async def test_a_failed_turn_raises_and_a_fork_and_undo_work(agents: Agents) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch"
    async with agents([call("apply_patch", input=patch), say("Done."), say("Other.")]) as (agent, work, _):
        conversation = await agent.start("Do it")
        await conversation.result()
        fork = await conversation.fork()
        assert await conversation.undo() == (str(work / "a.txt"),)
        assert not (work / "a.txt").exists()
        with pytest.raises(UnderstudyError) as nothing:
            await conversation.undo()
        assert nothing.value.code == "bad_request"
        assert "undone" in str(nothing.value)
        await fork.send("Go on")
        assert (await fork.result()).text == "Other."


@pytest.mark.slow
async def test_nothing_is_left_behind(agents: Agents) -> None:
    async with agents([say("One.")]) as (agent, _, _model):
        conversation = await agent.start("Go")
        async for _item in conversation.items():
            break  # whoever leaves early leaves nothing running
    gc.collect()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
