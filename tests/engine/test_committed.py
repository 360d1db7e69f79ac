"""Nobody is told what is not in the log yet: a refusal, or word that there was nothing to do, waits for what it follows from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.e2e.scenes import text_of
from tests.e2e.talking import Stream, create, listed
from tests.support.busy_disk_log import BusyDiskLog
from tests.support.playbook import Playbook
from tests.support.server_here import ServerHere
from understudy.engine.log.durable import until_durable
from understudy.errors import StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt
from understudy.testing import HOLD, McpProcess, Script, ScriptedModel, call, deltas, say

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
TOUCH = call("shell", command=["touch", "made"])


async def steps(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def after_a_crash(folder: Path, script: Script) -> AsyncGenerator[tuple[ServerHere, BusyDiskLog, str]]:
    """A server with a conversation whose process was killed while it waited for an answer, or for more of the model's text."""
    home = folder / "home"
    home.mkdir()
    logs: list[BusyDiskLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> BusyDiskLog:
        logs.append(BusyDiskLog(home, loop))
        return logs[0]

    async with ScriptedModel(script) as model:
        async with McpProcess(model.url, cwd=folder, home=home, config=ASKING) as before:
            conversation = await create(before, prompt="1")
            stream = Stream(before, conversation)
            await (before.next_question() if script[0] is TOUCH else stream.until("agent_message_delta"))
            await before.kill()
        async with ServerHere(model.url, cwd=folder, home=home, config=ASKING, open_log=open_log) as here:
            await Stream(here, conversation).snapshot()
            yield here, logs[0], conversation


async def check_closed(here: ServerHere, conversation: str) -> None:
    """The end of the turn is there for whoever looks after the answer."""
    snapshot = await Stream(here, conversation, after=0).snapshot()
    assert [event["msg"]["message"] for event in snapshot if event["msg"]["type"] == "error"] == ["Turn interrupted"]
    [row] = await listed(here)
    assert (row["status"], row["pending"]) == ("idle", [])


async def test_an_answer_is_refused_once_the_end_of_the_turn_that_it_closed_is_in_the_log(tmp_path: Path) -> None:
    """Somebody had told the turn to end, and its process was killed before it read that."""
    async with after_a_crash(tmp_path, [TOUCH]) as (here, log, conversation):
        await until_durable(lambda told: log.post(ConversationId(conversation), Interrupt("1"), told))
        log.wait()
        arguments = {"conversation_id": conversation, "call_id": "call1", "decision": "approved"}
        answers = [here.call_tool("conversationApprove", arguments)]
        await log.until_asked()
        answers.append(here.call_tool("conversationApprove", arguments))  # this one finds no question
        await steps()
        assert not any(answer.done for answer in answers)
        log.go_on()
        for answer in answers:
            assert "no open question" in text_of(await answer)
        await check_closed(here, conversation)


async def test_a_summary_is_refused_once_the_end_of_the_turn_that_was_cut_off_is_in_the_log(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, [deltas(["Half an", HOLD])]) as (here, log, conversation):
        log.wait()
        summary = here.call_tool("conversationCompact", conversation_id=conversation)
        await log.until_asked()
        await steps()
        assert not summary.done
        log.go_on()
        assert "nothing to sum up" in text_of(await summary)
        await check_closed(here, conversation)


@asynccontextmanager
async def playing(folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[Playbook, BusyDiskLog]]:
    monkeypatch.setattr(Playbook, "open_log", BusyDiskLog)
    async with Playbook(folder, script) as play:
        log = cast(BusyDiskLog, play.engine.log)
        await play.seen("0 opened")
        yield play, log
        log.go_on()


async def test_an_interrupt_finds_nothing_once_the_end_of_the_turn_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(tmp_path, [deltas(["a", HOLD])], monkeypatch) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.wait()
        stops = [asyncio.ensure_future(play.interrupt())]
        await log.until_asked()
        stops.append(asyncio.ensure_future(play.interrupt()))
        await steps()
        assert not any(stop.done() for stop in stops)
        log.go_on()
        assert await asyncio.gather(*stops) == ["over", "nothing"]
        assert play.shown[-1] == "1 ended interrupted: Turn interrupted"


async def test_a_title_that_was_given_just_now_is_on_disk_for_whoever_gives_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(tmp_path, [], monkeypatch) as (play, log):
        log.wait()
        titles = [asyncio.ensure_future(play.handle.rename("Tea")) for _ in range(2)]
        await steps()
        assert not any(title.done() for title in titles)
        log.go_on()
        assert await asyncio.gather(*titles) == ["Tea", "Tea"]
        assert play.records().count("0 Renamed") == 1


async def test_what_is_found_is_told_at_once_while_nothing_is_on_its_way_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(tmp_path, [say("b")], monkeypatch) as (play, log):
        await play.send("one")
        await play.over()
        log.wait()
        assert await play.interrupt() == "nothing"
        assert not await play.decide("call1", "approved")


async def test_where_the_log_cannot_be_written_that_is_told_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(tmp_path, [deltas(["a", HOLD])], monkeypatch) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.wait()
        first = asyncio.ensure_future(play.interrupt())
        await log.until_asked()
        second = asyncio.ensure_future(play.interrupt())
        await steps()
        log.fail()
        for stop in (first, second):
            with pytest.raises(StoreError, match="disk I/O error on demand"):
                await stop


async def test_whoever_answers_too_late_is_told_while_the_turn_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that was taken up for an answer is told of by whoever gave it, however soon it ends."""
    async with playing(tmp_path, [deltas(["a", HOLD])], monkeypatch) as (play, log):
        await play.send("one")
        await play.seen("1 … a")
        log.wait()
        assert not await play.decide("call1", "approved")
        assert play.handle.facts.runs_here
