"""Two servers on one store: what one runs, the other streams, sends to, interrupts, approves and takes over."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import answered, failed, kinds, scene, text_of, told_to_model, users_in
from tests.e2e.talking import Stream, create, listed, send, structured
from tests.store.records import position_of
from tests.support.answered import answered as store_answered
from tests.support.obliging_model import ObligingModel
from tests.support.pausing import go_on, pause
from understudy.engine.handle import PATIENCE_SECONDS
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Noticed
from understudy.store.chain import LastDigests, Seals
from understudy.store.log import Batch
from understudy.store.sqlite.event_log import SqliteLog, number_of
from understudy.store.sqlite.writing import append, prepare, write
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, call, deltas, hang, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}


@asynccontextmanager
async def pair(script: Script, folder: Path, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess, McpProcess]]:
    home = folder / "home"
    home.mkdir()
    async with ScriptedModel(script) as model:
        first = McpProcess(model.url, cwd=folder, home=home, **options)
        second = McpProcess(model.url, cwd=folder, home=home, **options)
        async with first, second:
            yield model, first, second


async def test_a_turn_of_one_is_streamed_by_the_other(tmp_path: Path) -> None:
    script = [deltas(["Hel", "lo", HOLD, "!"]), call("shell", command=["echo", "hi"]), say("done")]
    async with pair(script, tmp_path) as (model, here, there):
        conversation = await create(here, prompt="1")
        near, far = Stream(here, conversation, after=0), Stream(there, conversation, after=0)
        await there.until(lambda: said(far) == "Hello" or None, "the text so far")
        [entry] = await listed(there)
        assert entry["status"] == "running"
        model.release()
        for stream in (near, far):
            await stream.until("task_complete")
        await send(here, conversation, "2")
        for stream in (near, far):
            await stream.until("task_complete", 2)
        left_out = ("agent_message_delta", "exec_command_output_delta")
        records = [[event for event in stream.events() if event["msg"]["type"] not in left_out] for stream in (near, far)]
        assert records[0] == records[1], "the same events, in the same order, with the same numbers"
        for stream in (near, far):
            assert said(stream).replace("done", "") in ("Hello!", "Hello"), "each piece once"


def said(stream: Stream) -> str:
    return "".join(event["msg"].get("delta", "") for event in stream.events())


@pytest.mark.slow
async def test_what_was_written_by_a_process_that_died_before_telling_is_shown(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    async with scene([say("one")], tmp_path, home=tmp_path / "home") as (_, server):
        conversation = ConversationId(await create(server, prompt="1"))
        stream = Stream(server, conversation, after=0)
        await stream.until("task_complete")
        with closing(SqliteLog(tmp_path / "home" / "understudy")) as log, closing(sqlite3.connect(log.path)) as silent:
            log.append(_noticed(log, conversation), lambda error: None)
            await stream.until("background_event")  # it listens
            silent.isolation_level = None
            prepare(silent)
            write(silent, append(number_of(conversation), _noticed(log, conversation), LastDigests(silent, Seals(log.path.parent))))
            await stream.until("background_event", 2)


def _noticed(log: SqliteLog, conversation: ConversationId) -> Batch:
    position, found = position_of(log, conversation), store_answered(log.find(conversation))
    assert position is not None
    assert found is not None
    entry = Entry(position.last_seq + 1, position.last_seq, "1", 1.0, Noticed("from elsewhere"))
    return Batch(conversation, position.epoch + 1, position.last_seq, (entry,), found.summary, claims=True)


@pytest.mark.slow
async def test_a_viewer_that_asks_another_process_for_what_comes_next_gets_it_once(tmp_path: Path) -> None:
    """The number is not in the log yet, so that the viewer begins at its end."""
    async with pair([deltas(["x", HOLD, "y"])], tmp_path) as (model, here, there):
        conversation = await create(here, prompt="1")
        near = Stream(here, conversation, after=0)
        await near.until("agent_message_delta")
        ahead = near.events()[-1]["_meta"]["seq"] + 1  # the number of what comes next
        far = Stream(there, conversation, after=ahead)
        assert await far.snapshot() == []
        model.release()
        await far.until("task_complete")
        await near.until("task_complete")
        records = [event for event in far.events() if event["msg"]["type"] != "agent_message_delta"]  # which may come, too
        assert records == [event for event in near.events() if event["_meta"]["seq"] >= ahead]


@pytest.mark.slow
async def test_a_message_to_a_turn_of_the_other_joins_it(tmp_path: Path) -> None:
    async with pair([deltas(["first", HOLD]), say("second")], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("agent_message_delta", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")
        assert structured(await send(there, thread, "3")) == {"status": "ok"}
        forked = await send(there, thread, "4", parent_message_id="67e55044-10b1-426f-9247-bb680e5fe0c8")
        assert "interrupt it, or wait for its end" in structured(forked)["message"]
        model.release()
        assert await one == await two == answered("second", thread)
        assert users_in(model.requests[1]) == ["1", "2", "3"], "once, and in order"
        assert there.events(two) == []


async def test_a_turn_of_the_other_is_interrupted(tmp_path: Path) -> None:
    async with pair([hang(), say("next")], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await model.next_request(1)
        thread = str((await here.event("session_configured", one))["session_id"])
        assert structured(await there.call_tool("conversationInterrupt", conversation_id=thread))["status"] == "ok"
        assert await one == failed("Turn interrupted", thread)
        assert await model.outcome(1) == "dropped"
        assert await there.call_tool("codex-reply", threadId=thread, prompt="2") == answered("next", thread)


@pytest.mark.slow
async def test_what_is_sent_right_after_interrupting_the_other_begins_a_turn(tmp_path: Path) -> None:
    async with pair([hang(), say("next"), say("again")], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await model.next_request(1)
        thread = str((await here.event("session_configured", one))["session_id"])
        await Stream(there, thread).snapshot()  # so that it knows the turn
        interrupted = there.call_tool("conversationInterrupt", conversation_id=thread)
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")  # both are in the box when the other looks into it
        assert structured(await interrupted)["status"] == "ok"
        assert await one == failed("Turn interrupted", thread)
        assert await two == answered("next", thread)
        assert users_in(model.requests[1]) == ["1", "2"]
        assert await there.call_tool("codex-reply", threadId=thread, prompt="3") == answered("again", thread), "it is free again"


async def test_a_question_of_the_other_is_answered(tmp_path: Path) -> None:
    script = [
        call("shell", command=["touch", "one"]),
        say("done"),
        call("shell", command=["touch", "two"]),
        say("done"),
    ]
    async with pair(script, tmp_path, config=ASKING) as (_, here, there):
        conversation = await create(there)  # so that the other process knows it, from before
        await Stream(there, conversation).snapshot()
        call_ = here.call_tool("codex-reply", threadId=conversation, prompt="1")
        question = await here.next_request("elicitation/create")
        elsewhere = await there.next_request("elicitation/create")  # it streams, so it is asked too
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "approved"}
        assert structured(await there.call_tool("conversationApprove", arguments)) == {"status": "ok"}
        assert await call_ == answered("done", conversation)
        assert (tmp_path / "one").exists()
        assert (await here.next_notification("notifications/cancelled"))["params"]["requestId"] == question["id"]
        assert (await there.next_notification("notifications/cancelled"))["params"]["requestId"] == elsewhere["id"]

        again = here.call_tool("codex-reply", threadId=conversation, prompt="2")
        await here.next_request("elicitation/create")
        await there.respond(await there.next_request("elicitation/create"), {"decision": "approved"})
        assert await again == answered("done", conversation)
        assert (tmp_path / "two").exists()


@pytest.mark.slow
async def test_of_two_answers_that_the_other_has_not_read_yet_the_first_counts_and_the_second_is_told_so(tmp_path: Path) -> None:
    async with pair([call("shell", command=["touch", "made"]), say("done")], tmp_path, config=ASKING) as (_, here, there):
        conversation = await create(here, prompt="1")
        stream = Stream(there, conversation)
        await there.next_request("elicitation/create")
        await pause(here.process.pid, here.home)
        arguments = {"conversation_id": conversation, "call_id": "call1"}
        first, second = (there.call_tool("conversationApprove", arguments, decision=one) for one in ("approved", "denied"))
        await stream.cancel()
        assert not first.done
        go_on(here.process.pid)
        assert structured(await first) == {"status": "ok"}
        refused = structured(await second)
        assert refused["status"] == "error"
        assert refused["message"].startswith("no open question with call_id `call1`")
        await Stream(there, conversation).until("task_complete")
        assert (tmp_path / "made").exists()


@pytest.mark.slow
@pytest.mark.slow
async def test_an_answer_that_the_other_does_not_read_is_only_requested(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    longer = PATIENCE_SECONDS + WAIT_SECONDS
    async with pair(script, tmp_path, config=ASKING, wait_seconds=longer) as (_, here, there):
        conversation = await create(here, prompt="1")
        stream = Stream(there, conversation)
        await there.next_request("elicitation/create")
        await pause(here.process.pid, here.home)
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "approved"}
        assert structured(await there.call_tool("conversationApprove", arguments))["status"] == "requested"
        go_on(here.process.pid)
        await stream.until("task_complete")
        assert (tmp_path / "made").exists()


@pytest.mark.slow
async def test_a_question_that_nobody_streams_is_answered_from_elsewhere(tmp_path: Path) -> None:
    async with pair([call("shell", command=["touch", "made"]), say("done")], tmp_path, config=ASKING) as (_, here, there):
        conversation = await create(here, prompt="1")
        stream = Stream(there, conversation)
        await there.respond(await there.next_request("elicitation/create"), {"decision": "approved"})
        await stream.until("task_complete")
        assert (tmp_path / "made").exists()


@pytest.mark.slow
async def test_a_turn_that_nobody_streams_is_interrupted_from_elsewhere(tmp_path: Path) -> None:
    async with pair([hang()], tmp_path) as (model, here, there):
        conversation = await create(here, prompt="1")
        await model.next_request(1)
        await there.call_tool("conversationInterrupt", conversation_id=conversation)
        assert await model.outcome(1) == "dropped"


@pytest.mark.slow
async def test_a_conversation_gone_on_with_elsewhere_is_up_to_date_here(tmp_path: Path) -> None:
    async with pair([say("one"), say("two"), call("shell", command=["touch", "x"]), say("three"), say("four")], tmp_path) as (
        model,
        here,
        there,
    ):
        conversation = await create(here, prompt="1")
        await Stream(here, conversation).until("task_complete")
        assert await there.call_tool("codex-reply", threadId=conversation, prompt="2") == answered("two", conversation)
        assert await here.call_tool("codex-reply", threadId=conversation, prompt="3") == answered("three", conversation)
        assert await there.call_tool("codex-reply", threadId=conversation, prompt="4") == answered("four", conversation)
        assert users_in(model.requests[-1]) == ["1", "2", "3", "4"]
        snapshots = [await Stream(server, conversation, after=0).snapshot() for server in (here, there)]
        assert snapshots[0] == snapshots[1]
        turns = {event["_meta"]["messageId"] for event in snapshots[0] if event["msg"]["type"] == "task_started"}
        assert len(turns) == 4


@pytest.mark.slow
async def test_who_waits_for_a_turn_whose_process_dies_is_answered(tmp_path: Path) -> None:
    async with pair([deltas(["half", HOLD]), say("next")], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("agent_message_delta", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")
        stream = Stream(there, thread, after=0)
        assert structured(await send(there, thread, "3")) == {"status": "ok"}
        await stream.until("user_message", 3)  # the other has read both letters
        await here.kill()
        result = await two
        assert text_of(result) == "Turn interrupted"
        assert await there.call_tool("codex-reply", threadId=thread, prompt="4") == answered("next", thread)
        assert users_in(model.requests[1]) == ["1", "2", "3", "4"]


@pytest.mark.slow
async def test_a_letter_that_a_dead_process_never_read_is_read_by_its_sender(tmp_path: Path) -> None:
    script = [call("shell", command=["sleep", "60"], timeout=100_000), say("mine")]
    async with pair(script, tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("exec_command_begin", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        await pause(here.process.pid, here.home)  # it neither reads nor lets go
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")
        assert await there.request("ping") == {}
        assert not two.done
        await here.kill()
        assert await two == answered("mine", thread)
        assert kinds(there.events(two), "agent_message_delta") == ["task_started", "agent_message", "task_complete"]
        assert users_in(model.requests[1]) == ["1", "2"]
        assert "not known" in told_to_model(model.requests[1])


@pytest.mark.slow
async def test_an_answer_that_a_dead_process_never_read_counts_where_the_turn_goes_on(tmp_path: Path) -> None:
    async with pair([call("shell", command=["touch", "made"]), say("done")], tmp_path, config=ASKING) as (_, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.next_request("elicitation/create")
        thread = str((await here.event("session_configured", one))["session_id"])
        await pause(here.process.pid, here.home)  # it neither reads nor lets go
        arguments = {"conversation_id": thread, "call_id": "call1", "decision": "approved"}
        approved = there.call_tool("conversationApprove", arguments)
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")
        assert await there.request("ping") == {}
        await here.kill()
        assert await two == answered("done", thread)
        assert structured(await approved) == {"status": "ok"}
        assert (tmp_path / "made").exists()


@pytest.mark.slow
async def test_a_letter_that_cannot_be_used_yet_stays_in_the_box(tmp_path: Path) -> None:
    """Whether it is read by itself once it can be, or with the next message, is a matter of moments."""
    model, home = ObligingModel(), tmp_path / "home"
    home.mkdir()
    async with model.serving():
        here, there = (McpProcess(model.url, cwd=tmp_path, home=home) for _ in range(2))
        await _letter_in_the_box(model, here, there)


async def _letter_in_the_box(model: ObligingModel, here: McpProcess, there: McpProcess) -> None:
    async with here, there:
        one = here.call_tool("codex", prompt="run")
        await here.event("exec_command_begin", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        await pause(here.process.pid, here.home)
        assert structured(await send(there, thread, "2")) == {"status": "ok"}
        settings = there.home / "config.toml"
        good = settings.read_text()
        settings.write_text("model = [")
        waiting = there.call_tool("codex-reply", threadId=thread, prompt="3")
        assert (await waiting)["isError"] is True
        await here.kill()
        refused = await there.call_tool("codex-reply", threadId=thread, prompt="4")
        assert "config.toml" in text_of(refused)
        settings.with_name("good").write_text(good)
        settings.with_name("good").rename(settings)  # at once: it may be read in any moment
        assert await there.call_tool("codex-reply", threadId=thread, prompt="5") == answered("ok: 5", thread)
        assert users_in(model.requests[-1]) == ["run", "2", "5"], "what was acknowledged is read; what was refused is not"


@pytest.mark.slow
async def test_a_question_of_a_process_that_died_is_put_to_who_waits_elsewhere(tmp_path: Path) -> None:
    async with pair([call("shell", command=["touch", "made"]), say("done")], tmp_path, config=ASKING) as (_, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.next_request("elicitation/create")
        thread = str((await here.event("session_configured", one))["session_id"])
        two = there.call_tool("codex-reply", threadId=thread, prompt="2")
        stream = Stream(there, thread, after=0)
        await stream.until("user_message", 2)
        await stream.cancel()
        await here.kill()
        question = await there.next_request("elicitation/create")
        await there.respond(question, {"decision": "approved"})
        assert await two == answered("done", thread)
        assert (tmp_path / "made").exists()


@pytest.mark.slow
async def test_both_killed_a_third_goes_on(tmp_path: Path) -> None:
    async with pair([deltas(["half", HOLD]), say("next")], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("agent_message_delta", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        assert structured(await send(there, thread, "2")) == {"status": "ok"}
        await here.kill()
        await there.kill()
        async with McpProcess(model.url, cwd=tmp_path, home=tmp_path / "home") as third:
            assert await third.call_tool("codex-reply", threadId=thread, prompt="3") == answered("next", thread)
        assert users_in(model.requests[1]) == ["1", "2", "3"]


@pytest.mark.slow
async def test_a_conversation_that_runs_elsewhere_is_not_deleted_nor_disturbed(tmp_path: Path) -> None:
    async with pair([deltas(["x", HOLD])], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("agent_message_delta", one)
        thread = str((await here.event("session_configured", one))["session_id"])
        refused = await there.call_tool("conversationDelete", conversation_id=thread)
        assert "running in another process" in structured(refused)["message"]
        model.release()
        assert await one == answered("x", thread)
        assert structured(await there.call_tool("conversationDelete", conversation_id=thread)) == {"status": "ok"}
        gone = await here.call_tool("codex-reply", threadId=thread, prompt="2")
        assert gone["isError"] is True


@pytest.mark.slow
async def test_messages_that_the_other_sends_while_it_is_deleted_leave_nothing_behind(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    model = ObligingModel()
    async with model.serving():
        here = McpProcess(model.url, cwd=tmp_path, home=home)
        there = McpProcess(model.url, cwd=tmp_path, home=home)
        async with here, there:
            for _ in range(10):
                thread = await create(here)
                call = here.call_tool("codex-reply", threadId=thread, prompt="talk")
                await here.event("agent_message_delta", call)
                await listed(there)
                deleted = here.call_tool("conversationDelete", conversation_id=thread)
                sent = [send(there, thread, "canary") for _ in range(5)]
                replies = [there.call_tool("codex-reply", threadId=thread, prompt="canary") for _ in range(5)]
                assert structured(await deleted) == {"status": "ok"}
                for other in (call, *sent, *replies):
                    await other
            assert there.stderr == ""
    with closing(sqlite3.connect(home / "understudy" / "conversations.db")) as store:
        for table in ("conversations", "records", "said", "inbox"):
            assert store.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


@pytest.mark.slow
async def test_turns_of_two_conversations_run_side_by_side(tmp_path: Path) -> None:
    async with pair([deltas(["a", HOLD]), deltas(["b", HOLD])], tmp_path) as (model, here, there):
        one = here.call_tool("codex", prompt="1")
        await here.event("agent_message_delta", one)
        two = there.call_tool("codex", prompt="2")
        await there.event("agent_message_delta", two)
        model.release()
        assert (text_of(await one), text_of(await two)) == ("a", "b")


@pytest.mark.slow
async def test_one_server_alone_needs_no_other(tmp_path: Path) -> None:
    async with scene([say("ok")], tmp_path) as (_, client):
        assert text_of(await client.call_tool("codex", prompt="1")) == "ok"
