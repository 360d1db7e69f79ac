"""Ops while the log does not answer: they keep their order, hold up nobody else, and are never left half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.support.connections import EngineHere
from tests.support.playbook import Playbook
from tests.support.suspending_log import SuspendingLog
from understudy.engine import remembered
from understudy.engine.conversation.phases import FORGOTTEN
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing import HOLD, Script, ScriptedModel, deltas, say
from understudy.testing.waiting import WAIT_SECONDS


@asynccontextmanager
async def scene(
    folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch, **settings: str
) -> AsyncGenerator[tuple[Playbook, SuspendingLog]]:
    monkeypatch.setattr(Playbook, "open_log", SuspendingLog)
    async with Playbook(folder, script, **settings) as play:
        log = cast(SuspendingLog, play.engine.log)
        yield play, log
        log.move_on()


async def steps(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_ops_that_come_while_the_claim_is_awaited_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, [deltas(["a", HOLD]), say("b")], monkeypatch) as (play, log):
        await play.seen("0 opened")
        await steps()
        log.stall()
        sends = [asyncio.ensure_future(play.send(text)) for text in ("one", "two", "three")]
        await steps()
        assert not any(task.done() for task in sends)
        log.move_on()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await asyncio.gather(*sends) == ["begins", "joins", "joins"]
        await play.seen("1 … a")
        play.model.release()
        await play.over()
        assert [line for line in play.records() if "user" in line] == ["1 user one", "1 user two", "1 user three"]
        assert play.records()[-1] == "1 ended completed: b"


async def test_a_running_turn_is_interrupted_while_the_log_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, [deltas(["a", HOLD])], monkeypatch) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.stall()
        assert await asyncio.wait_for(play.interrupt(), WAIT_SECONDS) == "over"


async def test_an_op_is_carried_out_though_whoever_submitted_it_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, [say("a")], monkeypatch) as (play, log):
        await play.seen("0 opened")
        await steps()
        log.stall()
        sent = asyncio.ensure_future(
            play.handle.submit(play.handle.message(Message("user", (InputText("one"),)))),
        )
        await steps()
        sent.cancel()
        await asyncio.wait([sent])
        log.move_on()
        await play.over()
        assert play.records()[-1] == "1 ended completed: a"


async def test_an_op_that_waits_when_the_process_ends_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, [], monkeypatch) as (play, log):
        await play.seen("0 opened")
        await steps()
        log.stall()
        sends = [asyncio.ensure_future(play.send(text)) for text in ("one", "two")]
        await steps()
        log.move_on = lambda: None  # not even when all is over
    async with asyncio.timeout(WAIT_SECONDS):
        for outcome in await asyncio.gather(*sends, return_exceptions=True):
            assert isinstance(outcome, StoreError)
            assert str(outcome) == "the server is ending; the message was not taken"
    assert play.records() == ["0 opened"]


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_conversation_that_leaves_memory_while_the_log_is_asked_about_it_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, deleted: bool
) -> None:
    async with scene(tmp_path, [], monkeypatch) as (play, log):
        handle = await play.engine.create(LOCAL, Overrides(cwd=str(tmp_path)))
        async with asyncio.timeout(WAIT_SECONDS):
            await handle.durable()
            following = handle.follow(QuietViewer())
            following.go_live()
            log.asked.clear()
            log.stall()
            while "positions" not in log.asked:
                await steps()
            following.stop()
            if deleted:
                SqliteLog.delete(log, handle.id, lambda error: None)
            monkeypatch.setattr(remembered, "MOST_BYTES", 0)
            monkeypatch.setattr(remembered, "BUSY_SECONDS", 0.0)
            conversation = handle._conversation  # pyright: ignore[reportPrivateUsage]
            play.engine._remembered.note_used(conversation)  # pyright: ignore[reportPrivateUsage]  # as for any other one
            assert conversation.standing.phase is FORGOTTEN
            log.move_on()
            await steps()
    assert not [line for line in caplog.messages if "bug" in line], caplog.messages


async def test_what_is_sent_before_and_after_a_deletion_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(tmp_path, [], monkeypatch, model_provider="scripted") as (play, log):  # it may be asked, or not
        await play.seen("0 opened")
        await steps()
        log.stall()
        before = asyncio.ensure_future(play.send("before"))
        await steps()
        deleting = asyncio.ensure_future(play.delete())
        await steps()
        after = asyncio.ensure_future(play.send("after"))
        await steps()
        log.move_on()
        async with asyncio.timeout(WAIT_SECONDS):
            assert await before == "begins"
            await deleting
            with pytest.raises(UnknownConversation):
                await after
        assert play.records() == []
        assert play.told == ["the conversation was deleted"]


async def test_one_who_asks_for_a_conversation_while_it_is_read_gets_the_same_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, [say("a"), deltas(["b", HOLD]), say("c")], monkeypatch) as (play, _):
        await play.send("one")
        await play.over()
        thread, url = play.handle.id, play.model.url
        async with EngineHere(tmp_path, url, open_log=SuspendingLog) as other:
            client = other.connect()
            calls = [client.call("codex-reply", threadId=thread, prompt=text) for text in ("two", "three")]
            await client.message("codex/event", 2)
            play.model.release()
            answers = [await client.answer(call) for call in calls]
        assert [answer["result"]["content"][0]["text"] for answer in answers] == ["c", "c"]
        starts = [line for line in play.records() if line.endswith("started")]
        assert starts == ["1 started", "2 started"], "both are in one turn of one conversation"


async def test_a_ping_and_another_conversation_do_not_wait_for_a_log_that_stalls(tmp_path: Path) -> None:
    logs: list[SuspendingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> SuspendingLog:
        logs.append(SuspendingLog(home, loop))
        return logs[0]

    async with (
        ScriptedModel([say("a"), deltas(["b", HOLD]), say("c")]) as model,
        EngineHere(tmp_path, model.url, open_log=open_log) as here,
    ):
        client = here.connect()
        first = await client.ask("codex", prompt="1", cwd=str(tmp_path))
        thread = first["structuredContent"]["threadId"]
        speaking = client.call("codex", prompt="2", cwd=str(tmp_path))
        await client.message("agent_message_delta", 2)
        logs[0].stall()
        waiting = client.call("codex-reply", threadId=thread, prompt="3")
        await client.answer(client.request("ping"))
        assert client.sink.answers_to(waiting) == []
        logs[0].move_on()
        assert (await client.answer(waiting))["result"]["content"][0]["text"] == "c"
        model.release()
        assert (await client.answer(speaking))["result"]["content"][0]["text"] == "b"


async def test_a_conversation_that_has_left_memory_is_read_again_by_its_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path, [say("a"), say("b")], monkeypatch) as (play, _):
        await play.send("one")
        await play.over()
        play.following.stop()
        conversations = play.engine._conversations  # pyright: ignore[reportPrivateUsage]
        async with asyncio.timeout(WAIT_SECONDS):
            while not conversations[play.handle.id].is_quiet:  # noqa: ASYNC110  # nothing tells when it is
                await asyncio.sleep(0)
        conversations.pop(play.handle.id).forget()
        await play.send("two")
        again = (await play.engine.find(LOCAL, play.handle.id)).follow(play)
        again.go_live()
        await play.seen("2 ended completed: b")
