"""Tasks outlive the process that made them: after `kill -9`, in another process, and from standard input and output to HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.e2e.scenes import FORBIDDING, told_to_model
from tests.support.http_server import HttpClient, HttpServer
from tests.support.obliging_model import ObligingModel
from tests.support.pausing import go_on, pause
from tests.support.task_clients import ASKABLE, KNOWS_TASKS, HttpDoor, Json, StdioDoor, TaskClient
from understudy.testing import (
    HOLD,
    SERVER_COMMAND,
    Answer,
    CodexHome,
    LineProcess,
    ReceivedRequest,
    Script,
    ScriptedModel,
    call,
    deltas,
    hang,
    say,
)

TOUCH = call("shell", command=["touch", "made.txt"])
ASKING: Script = [TOUCH, say("done")]
YES: Json = {"action": "accept"}
NO: Json = {"action": "decline"}


class Home:
    """One store, and as many servers on it as a test starts."""

    def __init__(self, folder: Path, model: ScriptedModel, config: Json | None, stack: AsyncExitStack) -> None:
        self._home = CodexHome(folder / "user" / ".codex", model, config=config)
        self.folder = folder
        self._stack = stack

    async def server(self, capabilities: Json = ASKABLE) -> tuple[LineProcess, TaskClient]:
        process = LineProcess(SERVER_COMMAND, cwd=self.folder, env=self._home.environment())
        await self._stack.enter_async_context(process)
        return process, TaskClient(StdioDoor(process), capabilities)


@asynccontextmanager
async def home(
    tmp_path: Path, script: Script | Callable[[ReceivedRequest], Answer], config: Json | None = None
) -> AsyncGenerator[tuple[ScriptedModel, Home]]:
    async with ScriptedModel(script) as model, AsyncExitStack() as stack:
        yield model, Home(tmp_path, model, config, stack)


async def test_a_task_is_the_same_in_every_process_once_it_is_over(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "hi"]), say("hello")]
    async with home(tmp_path, script) as (_, store):
        first, client = await store.server()
        task = await client.begin()
        done = await client.over(task)
        assert done["result"]["structuredContent"]["content"] == "hello"
        await first.kill()
        _, other = await store.server()
        _, third = await store.server()
        assert await other.get(task) == done
        assert await third.get(task) == done


@pytest.mark.slow
async def test_a_server_killed_in_the_middle_of_a_task_leaves_it_to_whoever_asks(tmp_path: Path) -> None:
    async with home(tmp_path, [hang()]) as (model, store):
        first, client = await store.server()
        task = await client.begin()
        await model.next_request(1)
        await first.kill()
        _, other = await store.server()
        cut = await other.over(task)
        assert (cut["status"], cut["result"]["isError"]) == ("completed", True)
        assert cut["result"]["structuredContent"]["content"] == "Turn interrupted"
        assert cut["result"]["structuredContent"]["threadId"]
        _, third = await store.server()
        assert await third.get(task) == cut
        await third.cancel(task)
        assert await other.get(task) == cut


@pytest.mark.slow
async def test_a_task_named_is_on_disk(tmp_path: Path) -> None:
    """However soon after the answer the server dies."""
    async with home(tmp_path, [hang()]) as (model, store):
        first, client = await store.server()
        task = await client.begin()
        await first.kill()
        _, other = await store.server()
        found = await other.over(task)
        assert found["result"]["isError"]
        if not model.received:  # it may have been asked, and must be: the script is there to be used up
            thread = found["result"]["structuredContent"]["threadId"]
            await other.cancel((await other.call("codex-reply", threadId=thread, prompt="again"))["taskId"])
            await model.next_request(1)


@pytest.mark.slow
async def test_a_question_survives_the_server_that_asked_it_and_is_answered_under_its_name(tmp_path: Path) -> None:
    async with home(tmp_path, ASKING, FORBIDDING) as (_, store):
        first, client = await store.server()
        task = await client.begin()
        asked = await client.asked(task)
        await first.kill()
        _, other = await store.server()
        assert await other.asked(task) == asked
        await other.update(task, dict.fromkeys(asked, YES))
        assert "inputRequests" not in await other.get(task)
        assert (await other.over(task))["result"]["structuredContent"]["content"] == "done"
        assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
async def test_an_answer_can_be_the_first_that_another_process_hears_of_a_task(tmp_path: Path) -> None:
    async with home(tmp_path, ASKING, FORBIDDING) as (_, store):
        first, client = await store.server()
        task = await client.begin()
        asked = await client.asked(task)
        await first.kill()
        _, other = await store.server()
        await other.update(task, dict.fromkeys(asked, NO))
        assert (await other.over(task))["result"]["structuredContent"]["content"] == "done"
        assert not (tmp_path / "made.txt").exists()


@pytest.mark.slow
async def test_a_task_that_waited_for_an_answer_when_its_server_died_can_be_cancelled(tmp_path: Path) -> None:
    async with home(tmp_path, [TOUCH], FORBIDDING) as (_, store):
        first, client = await store.server()
        task = await client.begin()
        await client.asked(task)
        await first.kill()
        _, other = await store.server()
        await other.cancel(task)
        assert (await other.over(task))["status"] == "cancelled"


@pytest.mark.slow
async def test_nobody_who_can_be_asked_is_a_no_also_after_a_restart(tmp_path: Path) -> None:
    """The question waited because another client could answer; both are gone."""
    async with home(tmp_path, ASKING, {**FORBIDDING, "understudy.unasked": "wait"}) as (_, store):
        first, client = await store.server(KNOWS_TASKS)
        task = await client.begin()
        second, askable = await store.server()
        await askable.asked(task)
        await second.kill()
        await first.kill()
        config = tmp_path / "user" / ".codex" / "config.toml"
        config.write_text(config.read_text().replace('"wait"', '"deny"'))
        _, other = await store.server(KNOWS_TASKS)
        done = await other.over(task)
        assert "cannot be asked" in done["result"]["structuredContent"]["refused"][0]["reason"]


@pytest.mark.slow
async def test_a_task_that_runs_elsewhere_is_seen_answered_and_cancelled_from_here(tmp_path: Path) -> None:
    async with home(tmp_path, [TOUCH, deltas([HOLD, "x"])], FORBIDDING) as (model, store):
        _, client = await store.server()
        task = await client.begin()
        _, other = await store.server()
        asked = await other.asked(task)
        assert asked == await client.asked(task)
        await other.update(task, dict.fromkeys(asked, YES))
        assert "inputRequests" not in await other.get(task)
        await model.next_request(2)
        assert (await other.get(task))["status"] == "working"
        await other.cancel(task)
        cancelled = await other.over(task)
        assert cancelled["status"] == "cancelled"
        assert await client.over(task) == cancelled


@pytest.mark.slow
async def test_a_process_that_asks_for_a_task_takes_it_over_when_the_other_dies(tmp_path: Path) -> None:
    async with home(tmp_path, ASKING, FORBIDDING) as (_, store):
        first, client = await store.server()
        task = await client.begin()
        _, other = await store.server()
        asked = await other.asked(task)
        await first.kill()
        await other.update(task, dict.fromkeys(asked, YES))
        assert (await other.over(task))["result"]["structuredContent"]["content"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("killed", [(), (0,), (1,), (0, 1)])
async def test_a_task_whose_message_lies_in_the_inbox_is_known_to_a_third_process(tmp_path: Path, killed: tuple[int, ...]) -> None:
    """It was sent to a turn that another process runs, which has not read it.

    Who takes the conversation over may be killed when it has just asked the model; the next one asks again.
    """

    def answer(request: ReceivedRequest) -> Answer:
        return say("both") if request.body["messages"][-1]["content"] == "two" else deltas(["let ", HOLD, "me"])

    async with home(tmp_path, answer) as (model, store):
        servers = [await store.server() for _ in range(2)]
        client, sender = (client for _, client in servers)
        first = await client.begin("one")
        await model.next_request(1)
        [listed] = (await client.call("conversationsList"))["structuredContent"]["conversations"]
        await pause(servers[0][0].pid, tmp_path / "user" / ".codex")
        second = (await sender.call("codex-reply", threadId=listed["conversation_id"], prompt="two"))["taskId"]
        _, third = await store.server()
        assert (await third.get(second))["status"] == "working"
        go_on(servers[0][0].pid)
        for number in killed:
            await servers[number][0].kill()
        model.release()
        assert (await third.over(second))["result"]["structuredContent"]["content"] == "both"
        assert ("isError" in (await third.over(first))["result"]) is (0 in killed)  # the turn that it was sent to was cut off


@pytest.mark.slow
async def test_two_answer_at_once_and_one_of_them_counts(tmp_path: Path) -> None:
    async with home(tmp_path, ASKING, FORBIDDING) as (model, store):
        _, client = await store.server()
        task = await client.begin()
        _, other = await store.server()
        asked = await other.asked(task)
        await asyncio.gather(client.update(task, dict.fromkeys(asked, YES)), other.update(task, dict.fromkeys(asked, NO)))
        done = await client.over(task)
        assert done == await other.over(task)
        ran = told_to_model(model.requests[1]).startswith("{")  # the outcome of a command; a refusal is words
        assert (tmp_path / "made.txt").exists() == ran


async def test_a_cancelled_request_and_a_progress_token_mean_nothing_to_a_task(tmp_path: Path) -> None:
    async with home(tmp_path, [deltas([HOLD, "hello"])]) as (model, store):
        process, client = await store.server()
        made = await client.result("tools/call", {"name": "codex", "arguments": {"prompt": "go"}}, progressToken="p")
        await model.next_request(1)
        process.send('{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}')
        assert (await client.get(made["taskId"]))["status"] == "working"
        model.release()
        done = await client.over(made["taskId"])
        assert done["result"]["structuredContent"]["content"] == "hello"
        assert not [line for line in process.lines if '"method"' in line], "no progress and no events"


@pytest.mark.slow
@pytest.mark.parametrize("named", [1, pytest.param(5, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.slow)])
async def test_every_task_that_was_named_is_found_and_ends_however_the_server_died(tmp_path: Path, named: int) -> None:
    """Twelve at once, and a kill as soon as so many have their names."""
    async with ObligingModel() as model, HttpServer(tmp_path, model) as server:
        client = TaskClient(HttpDoor(HttpClient(server.port, server.token)))
        tasks: list[str] = []

        async def begin(number: int) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
                tasks.append(await client.begin(f"{('echo', 'run', 'say')[number % 3]} {number}"))
                if len(tasks) == named:
                    await server.kill()

        await asyncio.gather(*(begin(number) for number in range(12)))
        assert len(tasks) >= named
        await server.start()
        for task in tasks:
            end = await client.over(task)
            assert end["status"] == "completed"
            assert end["result"]["structuredContent"]["threadId"]
            assert await client.get(task) == end


@pytest.mark.slow
async def test_a_task_of_the_pipe_is_had_over_http_and_the_other_way_round(tmp_path: Path) -> None:
    """Both are the local user's."""
    async with ScriptedModel([say("one"), say("two")]) as model, HttpServer(tmp_path, model) as server:
        process = LineProcess(SERVER_COMMAND, cwd=tmp_path, env=server.home.environment())
        async with process:
            doors = (TaskClient(StdioDoor(process)), TaskClient(HttpDoor(HttpClient(server.port, server.token))))
            for here, there, said in ((*doors, "one"), (*reversed(doors), "two")):
                task = await here.begin()
                assert (await there.over(task))["result"]["structuredContent"]["content"] == said
