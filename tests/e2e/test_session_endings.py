"""How commands that outlive their calls end: with the process, the conversation, their time, or an interrupt; nothing survives."""

import asyncio
import json
import os
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of, thread_of, told_to_model, users_in
from tests.e2e.talking import create, listed, send, structured
from tests.e2e.test_long_commands import FIRST, Told, start, write
from tests.e2e.test_two_processes import pair
from tests.sandbox.stage import processes_with
from understudy.protocol.ids import ConversationId
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import McpProcess, Script, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

CONTAINED = {"sandbox_mode": "workspace-write"}
MODES = pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])


@pytest.fixture
def mark() -> str:
    """A time to sleep that no other process on this machine has among its arguments."""
    return str(100_000_000 + secrets.randbelow(900_000_000))


async def gone(mark: str) -> None:
    """Until no process has it among its arguments."""
    async with asyncio.timeout(WAIT_SECONDS):
        while processes_with(f"sleep\0{mark}"):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)


async def there(mark: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not processes_with(f"sleep\0{mark}"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def none_listed(client: McpProcess) -> None:
    """Until the ends of all commands of the only conversation are on record: their processes are gone before that."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (await listed(client))[0].get("running"):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.02)


@asynccontextmanager
async def two_in_turn(script: Script, folder: Path, **config: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess, McpProcess]]:
    """Two servers on one store, of which the second is started by the test."""
    home = folder / "home"
    home.mkdir()
    work = folder / "work"
    work.mkdir()
    async with ScriptedModel(script) as model:
        first, second = (McpProcess(model.url, cwd=work, home=home, config={**CONTAINED, **config}) for _ in range(2))
        yield model, first, second


@pytest.mark.quick(1)
@MODES
async def test_after_kill_9_nothing_survives_and_the_next_process_tells_the_model(tmp_path: Path, mode: str, mark: str) -> None:
    script = [start(f"setsid sleep {mark} & sleep {mark}", tty=True), say("one"), write(), say("two")]
    async with two_in_turn(script, tmp_path, sandbox_mode=mode) as (model, first, second):
        await first.start()
        thread = thread_of(await first.call_tool("codex", prompt="1"))
        await there(mark)
        await first.kill()
        await gone(mark)
        async with second:
            [row] = await listed(second)
            assert (row["status"], row.get("running")) == ("idle", None)
            answer = await second.call_tool("codex-reply", threadId=thread, prompt="2")
            assert (text_of(answer), answer["structuredContent"].get("running")) == ("two", None)
        [news] = [text for text in users_in(model.requests[2]) if str(FIRST) in text]
        assert news.startswith(f"Session {FIRST} (`setsid sleep {mark} & sleep {mark}`) does not run any more: ")
        assert "whether it took effect is not known" in news
        assert told_to_model(model.requests[3], "call2") == f"write_stdin failed: Unknown process id {FIRST}"


@pytest.mark.slow
async def test_killed_in_the_first_wait_the_call_is_answered_as_unknown(tmp_path: Path, mark: str) -> None:
    script = [start(f"sleep {mark}", yield_time_ms=30_000), say("two")]
    async with two_in_turn(script, tmp_path) as (model, first, second):
        await first.start()
        call_ = first.call_tool("codex", prompt="1")
        thread = str((await first.event("session_configured", call_))["session_id"])
        await there(mark)
        await first.kill()
        await gone(mark)
        async with second:
            assert text_of(await second.call_tool("codex-reply", threadId=thread, prompt="2")) == "two"
        assert "not known" in told_to_model(model.requests[1])


@pytest.mark.slow
@MODES
async def test_a_server_that_ends_ends_them_and_says_so_in_the_log(tmp_path: Path, mode: str, mark: str) -> None:
    script = [start(f"echo up; sleep {mark}"), say("one"), say("two")]
    async with two_in_turn(script, tmp_path, sandbox_mode=mode) as (model, first, second):
        async with first:
            thread = thread_of(await first.call_tool("codex", prompt="1"))
        assert processes_with(f"sleep\0{mark}") == []
        async with second:
            await second.call_tool("codex-reply", threadId=thread, prompt="2")
        assert any("it was ended because the server ended" in text for text in users_in(model.requests[2]))


async def test_an_interrupt_ends_a_command_whose_number_the_model_does_not_have(tmp_path: Path, mark: str) -> None:
    script = [start(f"echo begun; sleep {mark}", yield_time_ms=30_000), say("later")]
    async with scene(script, tmp_path, config=CONTAINED) as (model, client):
        conversation = await create(client, prompt="1")
        await there(mark)
        stopped = structured(await client.call_tool("conversationInterrupt", conversation_id=conversation))
        assert stopped["interrupted"] is True
        await gone(mark)
        await client.call_tool("codex-reply", threadId=conversation, prompt="2")
        told = Told(told_to_model(model.requests[1]))
        assert (told.exit_code, told.output) == (137, "begun\ninterrupted by the user\n")


@pytest.mark.slow
async def test_an_interrupt_leaves_a_session_that_the_model_waits_for(tmp_path: Path, mark: str) -> None:
    script = [
        start(f"echo begun; sleep {mark}", tty=True),
        write("told of\n", yield_time_ms=300_000),  # so that an event tells when the call is under way
        write("\x03", call_id="call3", yield_time_ms=30_000),
    ]
    async with scene([*script, say("later")], tmp_path, config=CONTAINED) as (model, client):
        turn = client.call_tool("codex", prompt="1")
        await client.event("background_event")
        conversation = (await client.event("session_configured"))["session_id"]
        await there(mark)
        stopped = structured(await client.call_tool("conversationInterrupt", conversation_id=conversation))
        assert stopped["interrupted"] is True
        await turn
        [row] = await listed(client)
        assert [command["session_id"] for command in row["running"]["commands"]] == [FIRST]
        assert processes_with(f"sleep\0{mark}")
        await client.call_tool("codex-reply", threadId=conversation, prompt="2")
        assert Told(told_to_model(model.requests[2], "call2")).output.endswith("interrupted by the user\n")
        assert Told(told_to_model(model.requests[3], "call3")).exit_code == 130
        await gone(mark)


@pytest.mark.quick(1)
@pytest.mark.parametrize("tool", ["conversationDelete", "conversationArchive"])
async def test_with_its_conversation(tmp_path: Path, tool: str, mark: str) -> None:
    async with scene([start(f"sleep {mark}"), say("one")], tmp_path, config=CONTAINED) as (_, client):
        thread = thread_of(await client.call_tool("codex", prompt="1"))
        await there(mark)
        assert structured(await client.call_tool(tool, conversation_id=thread))["status"] == "ok"
        assert processes_with(f"sleep\0{mark}") == []


async def test_idle_ones_end_and_the_model_is_told_without_asking(tmp_path: Path, mark: str) -> None:
    config = {**CONTAINED, "understudy.commands.idle_seconds": 1}
    async with scene([start(f"sleep {mark}"), say("one"), say("two")], tmp_path, config=config) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="1"))
        assert Told(told_to_model(model.requests[1])).session == FIRST  # it ran; by now it may have ended
        await none_listed(client)
        await gone(mark)
        assert "running" not in (await client.call_tool("codex-reply", threadId=thread, prompt="2"))["structuredContent"]
        assert any("nobody had asked for it for 1 seconds" in text for text in users_in(model.requests[2]))


@pytest.mark.slow
async def test_the_sandbox_s_time_limit_holds_for_them(tmp_path: Path, mark: str) -> None:
    config = {**CONTAINED, "understudy.sandbox.limits.seconds": 1}
    script = [start(f"sleep {mark}", yield_time_ms=250), write(), say("one")]
    async with scene(script, tmp_path, config=config) as (model, client):
        await client.call_tool("codex", prompt="1")
        told = Told(told_to_model(model.requests[1]))
        if told.exit_code is None:  # a machine may be so slow that it is over before the first call is
            told = Told(told_to_model(model.requests[2], "call2"))
        assert (told.exit_code, told.output) == (124, "command timed out after 1000 milliseconds\n")


@pytest.mark.slow
async def test_a_process_that_stops_itself_is_ended_by_ctrl_c_at_the_latest_with_the_server(tmp_path: Path, mark: str) -> None:
    stops = f"echo up; (sleep {mark} &) ; kill -STOP $$"
    async with scene([start(stops), write("\x03", yield_time_ms=30_000), say("one")], tmp_path, config=CONTAINED) as (
        model,
        client,
    ):
        await client.call_tool("codex", prompt="1")
        assert Told(told_to_model(model.requests[2], "call2")).exit_code == 137
    await gone(mark)


# -- another process


@pytest.mark.slow
async def test_a_message_from_another_process_begins_a_turn_where_the_command_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"until test -e {gate}; do sleep 0.05; done; echo seen"
    poll = write(yield_time_ms=300_000)
    # no login shell: it might complain, sooner or later, of a start-up file that stands in for one that may not be made
    async with pair([start(wait, login=False), say("one"), poll, say("two")], tmp_path, config=CONTAINED) as (model, here, there_):
        thread = thread_of(await here.call_tool("codex", prompt="1"))
        [row] = await listed(there_)
        assert [command["session_id"] for command in row["running"]["commands"]] == [FIRST]
        reply = there_.call_tool("codex-reply", threadId=thread, prompt="2")
        await model.next_request(3)
        gate.touch()
        assert text_of(await reply) == "two"
        told = Told(told_to_model(model.requests[3], "call2"))
        assert (told.exit_code, told.output) == (0, "seen\n")


@pytest.mark.slow
async def test_how_it_ended_is_told_by_another_process_too(tmp_path: Path) -> None:
    gate = tmp_path / "work" / "gate"
    wait = f"until test -e {gate}; do sleep 0.05; done; echo seen; exit 4"
    script = [start(wait), say("one"), write(), write(call_id="call3"), say("two")]
    async with two_in_turn(script, tmp_path) as (model, first, second):
        async with first:
            thread = thread_of(await first.call_tool("codex", prompt="1"))
            gate.touch()
            await none_listed(first)
        async with second:
            await second.call_tool("codex-reply", threadId=thread, prompt="2")
        told = Told(told_to_model(model.requests[3], "call2"))
        assert (told.exit_code, told.output) == (4, "seen\n")
        assert told_to_model(model.requests[4], "call3") == f"write_stdin failed: Unknown process id {FIRST}"


@pytest.mark.slow
async def test_there_is_nothing_to_interrupt_where_only_a_command_runs(tmp_path: Path, mark: str) -> None:
    async with pair([start(f"sleep {mark}"), say("one")], tmp_path, config=CONTAINED) as (_, here, there_):
        thread = thread_of(await here.call_tool("codex", prompt="1"))
        for client in (there_, here):
            stopped = structured(await client.call_tool("conversationInterrupt", conversation_id=thread))
            assert stopped == {"status": "ok", "interrupted": False}
        await there(mark)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["conversationDelete", "conversationArchive"])
async def test_another_process_may_put_the_conversation_away(tmp_path: Path, tool: str, mark: str) -> None:
    async with pair([start(f"sleep {mark}"), say("one")], tmp_path, config=CONTAINED) as (_, here, there_):
        thread = thread_of(await here.call_tool("codex", prompt="1"))
        await there(mark)
        assert structured(await there_.call_tool(tool, conversation_id=thread))["status"] == "ok"
        await gone(mark)
        assert await listed(here) == []


@pytest.mark.slow
async def test_when_its_process_dies_another_one_takes_the_conversation(tmp_path: Path, mark: str) -> None:
    async with pair([start(f"sleep {mark}"), say("one"), say("two")], tmp_path, config=CONTAINED) as (model, here, there_):
        thread = thread_of(await here.call_tool("codex", prompt="1"))
        await here.kill()
        assert text_of(await there_.call_tool("codex-reply", threadId=thread, prompt="2")) == "two"
        assert any("not known" in text for text in users_in(model.requests[2]))
        await gone(mark)


@pytest.mark.slow
async def test_a_claim_is_given_back_when_the_last_command_has_ended(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"until test -e {gate}; do sleep 0.05; done"
    async with pair([start(wait), say("one"), say("two")], tmp_path, config=CONTAINED) as (_, here, there_):
        conversation = await create(here, prompt="1")
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await listed(there_))[0].get("running"):  # noqa: ASYNC110  # nothing tells of it
                await asyncio.sleep(0.02)
        gate.touch()
        await none_listed(there_)
        with closing(SqliteLog(tmp_path / "home" / "understudy")) as log:
            async with asyncio.timeout(WAIT_SECONDS):
                while await log.holder(ConversationId(conversation)) is not None:  # noqa: ASYNC110  # a moment after the record
                    await asyncio.sleep(0.02)
        answer = send(there_, conversation, "2")
        assert structured(await answer)["status"] == "ok"
        assert (await answer)["_meta"]["joined"] is False, "it began its turn there"


# -- at the terminal


async def understudy(home: Path, *words: str) -> str:
    """What the command prints; it must succeed."""
    argv = (sys.executable, "-m", "understudy", *words)
    environment = {"CODEX_HOME": str(home), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(*argv, env=environment, stdout=PIPE, stderr=PIPE)
    printed, complaints = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert process.returncode == 0, complaints
    return printed.decode()


@pytest.mark.slow
async def test_lists_name_the_turn_that_is_at_work_and_none_whose_process_was_killed(tmp_path: Path) -> None:
    async with two_in_turn([call("shell", command=["touch", "x"])], tmp_path, approval_policy="untrusted") as (_, first, second):
        await first.start()
        await first.initialize()
        first.call_tool("codex", prompt="1")
        await first.next_question()
        at_work: tuple[str, dict[str, Any]] = ("waiting", {"turn": "1", "commands": []})
        [row] = await listed(first)
        assert (row["status"], row["running"]) == at_work
        [row] = json.loads(await understudy(tmp_path / "home", "conversations", "--json"))
        assert (row["status"], row["running"]) == at_work
        await first.kill()
        async with second:
            [row] = await listed(second)
            assert (row["status"], "running" in row) == ("waiting", False)
        [row] = json.loads(await understudy(tmp_path / "home", "conversations", "--json"))
        assert (row["status"], "running" in row) == ("waiting", False)


@pytest.mark.slow
async def test_the_list_and_show_tell_what_runs_and_archiving_or_deleting_there_ends_it(tmp_path: Path, mark: str) -> None:
    script = [start(f"sleep {mark}"), say("one"), start(f"sleep {mark}", call_id="call2"), say("two")]
    async with two_in_turn(script, tmp_path) as (_, first, _second), first:
        home = tmp_path / "home"
        running = {"session_id": FIRST, "command": f"sleep {mark}"}
        for number, action in ((0, ("archive",)), (1, ("delete", "--yes"))):
            thread = thread_of(await first.call_tool("codex", prompt="go"))
            await there(mark)
            [row] = json.loads(await understudy(home, "conversations", "--json"))
            assert row["running"] == {"commands": [running]}, number
            assert "[1 command running]" in await understudy(home, "conversations")
            assert f"running in session {FIRST}: sleep {mark}" in await understudy(home, "show", thread)
            await understudy(home, "conversations", action[0], thread, *action[1:])
            await gone(mark)
            assert json.loads(await understudy(home, "conversations", "--json")) == []
