"""What a conversation does with ops: the records it writes, what viewers are shown, and what the model is asked with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.playbook import Playbook
from tests.support.suspending_log import SuspendingLog
from understudy.engine.ops.table import way_of
from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.callers import LOCAL
from understudy.protocol.ops import Interrupt, Resume
from understudy.store.log import Store
from understudy.store.opening import open_store
from understudy.testing import HOLD, call, deltas, hang, say, status

LOGS: dict[str, Callable[[Path, asyncio.AbstractEventLoop], Store]] = {
    "answers at once": open_store,
    "suspends": SuspendingLog,
    "is slow": partial(SuspendingLog, seconds=0.004),
}


@pytest.fixture(params=LOGS, autouse=True)
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a conversation does is the same on any log, however late that answers."""
    monkeypatch.setattr(Playbook, "open_log", staticmethod(LOGS[request.param]))


ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}


async def test_a_plain_turn(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("Hello", usage=(10, 3))]) as play:
        assert await play.send("hi") == "begins"
        await play.over()
        assert play.records() == [
            "0 opened",
            "1 user hi",
            "1 started",
            "1 asks with ['hi']",
            "1 says Hello",
            "1 counts 10+3, in all 10+3",
            "1 ended completed: Hello",
        ]
        assert [line for line in play.shown if "…" not in line] == play.records(), "shown is what is written"
        assert "1 … Hello" in play.shown
        assert play.shown.index("1 … Hello") < play.shown.index("1 says Hello")
        assert play.asked_of_the_model() == [["user hi"]]


async def test_tokens_are_summed_over_the_turns(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("a", usage=(10, 3)), say("b", usage=(20, 4)), say("c", usage=(5, 1))]) as play:
        for number, text in enumerate(("1", "2", "3"), start=1):
            await play.send(text)
            await play.over(number)
        counts = [line for line in play.records() if "counts" in line]
        assert counts == ["1 counts 10+3, in all 10+3", "2 counts 20+4, in all 30+7", "3 counts 5+1, in all 35+8"]
        assert play.asked_of_the_model()[2] == ["user 1", "assistant a", "user 2", "assistant b", "user 3"]


async def test_a_command_is_on_record_before_and_after_it_ran(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("look") + call("shell", command=["echo", "hi"]), say("done")]) as play:
        await play.send("go")
        await play.over()
        assert play.records()[3:] == [
            "1 asks with ['go']",
            "1 says look",
            "1 calls shell call1",
            "1 runs call1 echo hi",
            "1 ran call1 to 0 hi",
            "1 answers call1 well",
            "1 asks with []",
            "1 says done",
            "1 ended completed: done",
        ]
        assert play.asked_of_the_model()[1][-2:] == ["calls call1", "tool call1"]


async def test_a_message_that_comes_while_the_model_speaks_is_read_once_before_the_turn_ends(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD]), say("two")]) as play:
        await play.send("first")
        await play.seen("1 … one")
        assert await play.send("second") == "joins"
        assert await play.send("third") == "joins"
        play.model.release()
        await play.over()
        assert [line for line in play.records() if "asks" in line] == ["1 asks with ['first']", "1 asks with ['second', 'third']"]
        assert play.records()[-1] == "1 ended completed: two"
        assert play.asked_of_the_model()[1] == ["user first", "assistant one", "user second", "user third"]


async def test_what_is_sent_after_an_interrupt_begins_a_turn_of_its_own(tmp_path: Path) -> None:
    sleeper = call("shell", command=["sleep", "60"], timeout=100_000)
    async with Playbook(tmp_path, [sleeper, say("next")]) as play:
        await play.send("go")
        await play.seen("1 runs call1 sleep 60")
        interrupted = play.interrupt()
        stopping = asyncio.ensure_future(interrupted)
        await asyncio.sleep(0)
        assert await play.send("instead") == "waits"
        assert await stopping == "over"
        await play.over(2)
        lines = play.records()
        ended = lines.index("1 ended interrupted: Turn interrupted")
        assert lines[ended + 1 :] == [
            "3 user instead",
            "3 started",
            "3 asks with ['instead']",
            "3 says next",
            "3 ended completed: next",
        ]
        assert await play.interrupt() == "nothing"


async def test_an_interrupt_while_the_model_speaks_keeps_what_it_said(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["half an ", "ans", HOLD]), say("whole")]) as play:
        await play.send("go")
        await play.seen("1 … ans")
        assert await play.interrupt() == "over"
        assert play.records()[-1] == "1 ended interrupted: Turn interrupted"
        assert await play.send("again") == "begins"
        await play.over(2)
        assert play.asked_of_the_model()[1] == ["user go", "assistant half an ans", "user again"]
        assert play.shown[-1] == "3 ended completed: whole", "the interrupt took a number of its own"


async def test_a_question_is_answered_once_and_a_second_answer_is_noted_as_late(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [call("shell", command=["touch", "made"]), deltas(["ok", HOLD])], **ASKING) as play:
        await play.send("go")
        await play.seen("1 wonders call1")
        assert not (tmp_path / "made").exists()
        assert await play.decide("call1", "approved") is True
        assert await play.decide("call1", "denied") is False
        await play.seen("1 … ok")
        assert await play.decide("nobody", "approved") is False
        play.model.release()
        await play.over()
        decided = [line for line in play.records() if "decided" in line]
        assert decided == ["1 decided call1 approved", "1 decided call1 denied too late", "1 decided nobody approved too late"]
        assert (tmp_path / "made").exists()


async def test_an_approval_for_the_session_is_asked_for_once_and_one_for_this_time_again(tmp_path: Path) -> None:
    touch = call("shell", command=["touch", "made"])
    script = [touch, say("1"), touch, say("2"), touch, say("3")]
    async with Playbook(tmp_path, script, **ASKING) as play:
        for turn, decision in ((1, "approved"), (2, "approved_for_session")):
            await play.send("go")
            await play._watched.until(  # pyright: ignore[reportPrivateUsage]
                lambda turn=turn: sum("wonders" in line for line in play.shown) >= turn or None, "a question"
            )
            await play.decide("call1", decision)  # pyright: ignore[reportArgumentType]
            await play.over(turn)
        await play.send("go")
        await play.over(3)
        assert sum("wonders" in line for line in play.records()) == 2
        assert sum(" ran call1 to 0" in line for line in play.records()) == 3


async def test_ending_the_turn_instead_of_answering_ends_it_and_what_is_sent_then_begins_another(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [call("shell", command=["touch", "made"]), say("next")], **ASKING) as play:
        await play.send("go")
        await play.seen("1 wonders call1")
        assert await play.decide("call1", "abort") is True
        assert await play.send("instead") == "waits"
        await play.over(2)
        lines = play.records()
        assert "1 answers call1 badly" in lines
        assert lines.index("1 ended interrupted: Turn interrupted") < next(
            number for number, line in enumerate(lines) if line.endswith("user instead")
        )
        assert not (tmp_path / "made").exists()


async def test_a_turn_that_fails_says_why_and_the_next_one_works(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [status(400, "no such model"), say("well")]) as play:
        await play.send("one")
        await play.over()
        assert play.records()[-1].startswith("1 ended failed: ")
        assert "no such model" in play.records()[-1]
        await play.send("two")
        await play.over(2)
        assert play.asked_of_the_model()[1] == ["user one", "user two"]


async def test_going_back_leaves_the_other_path_out_of_what_the_model_reads(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("a"), say("b"), say("c"), say("d")]) as play:
        for number, (text, after) in enumerate((("1", None), ("2", None), ("3", "1"), ("4", None)), start=1):
            await play.send(text, after=after)
            await play.over(number)
        assert play.asked_of_the_model()[2] == ["user 1", "assistant a", "user 3"]
        assert play.asked_of_the_model()[3] == ["user 1", "assistant a", "user 3", "assistant c", "user 4"]
        starts = [line for line in play.records() if line.endswith("started")]
        assert starts == ["1 started", "2 started", "3 started", "4 started"], "numbers are given out once"
        parents = {entry.seq: entry.parent for entry in play.entries()}
        assert sum(parent != seq - 1 for seq, parent in parents.items()) == 1


async def test_going_back_while_a_turn_runs_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("a"), hang()]) as play:
        await play.send("1")
        await play.over()
        await play.send("2")
        await play.model.next_request(2)
        with pytest.raises(BadRequest, match="a turn is running"):
            await play.send("3", after="1")
        assert await play.interrupt() == "over"
        assert not any("user 3" in line or "?" in line for line in play.records())


async def test_deleting_ends_the_turn_and_refuses_what_comes_afterwards(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [hang()]) as play:
        await play.send("1")
        await play.model.next_request(1)
        await play.delete()
        assert play.records() == []
        assert play.told == ["the conversation was deleted"]
        with pytest.raises(UnknownConversation):
            await play.send("2")
        with pytest.raises(UnknownConversation):
            await play.handle.submit(Resume())
        with pytest.raises(UnknownConversation):
            await play.engine.fork(LOCAL, play.handle.id)


async def test_an_end_that_was_asked_for_elsewhere_counts_for_a_turn_that_could_not_be_resumed(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [call("shell", command=["touch", "made"])], **ASKING) as play:
        await play.send("go")
        await play.seen("1 wonders call1")
    async with Playbook.beside(play, [], **ASKING) as later:
        conversation = later.handle._conversation  # pyright: ignore[reportPrivateUsage]

        async def end(turn: str) -> None:
            await conversation.take_claim()
            await way_of(Interrupt(turn)).when_idle(conversation, Interrupt(turn))

        await conversation.alone(end("another"))
        assert conversation.state.turn == "1"
        await conversation.alone(end("1"))
        await later.over()
        assert later.records()[-1].startswith("1 ended interrupted")
