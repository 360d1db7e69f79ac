"""What a conversation owes to those beside it: other processes, viewers who read again, whoever keeps it in memory.

A second engine on the same store is to the first what another process is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from tests.support.losing_log import LosingLog
from tests.support.playbook import Playbook
from understudy.config.home import state_dir
from understudy.engine.conversation.conversation import Conversation
from understudy.engine.conversation.phases import FORGOTTEN
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError, ConversationBusy, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Accepted, Archive, Cancel, Interrupt, Op, Rename
from understudy.protocol.records import Noticed, Overrides
from understudy.testing import HOLD, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
HI = Message("user", (InputText("hi"),))
TOUCH = call("shell", command=["touch", "made"])


def inside(play: Playbook) -> Conversation:
    return play.handle._conversation  # pyright: ignore[reportPrivateUsage]


async def on_disk(play: Playbook) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await inside(play).tail.committed()


# -- whose turn it is


async def test_two_processes_take_turns_and_each_shows_all_of_it(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("a"), say("c")]) as here, Playbook.beside(here, [say("b")]) as there:
        for play, text in ((here, "1"), (there, "2"), (here, "3")):
            assert await play.send(text) == "begins"
            await play.over(int(text))
            assert not inside(play).claim.is_held, "another process that acts at once is not refused"
        await there.seen("3 ended completed: c")
        for play in (here, there):
            assert [line for line in play.shown if "…" not in line] == here.records()[len(here.records()) - len(_whole(play)) :]
        assert here.asked_of_the_model()[-1] == ["user 1", "assistant a", "user 2", "assistant b", "user 3"]


def _whole(play: Playbook) -> list[str]:
    return [line for line in play.shown if "…" not in line]


async def test_a_message_for_a_turn_that_runs_elsewhere_is_kept_and_read_there(tmp_path: Path) -> None:
    script = [deltas(["one", HOLD]), say("two")]
    async with Playbook(tmp_path, script) as here, Playbook.beside(here, []) as there:
        await here.send("first")
        await here.seen("1 … one")
        durable = Durable()
        assert await there.send("second", durable=durable) == "joins"
        assert not durable.failed
        async with asyncio.timeout(WAIT_SECONDS):
            await durable
        await here.seen("1 user second")
        here.model.release()
        await here.over()
        assert here.asked_of_the_model()[1] == ["user first", "assistant one", "user second"]
        await there.seen("1 ended completed: two")


async def test_a_turn_is_not_taken_up_while_its_process_lives(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD])]) as here, Playbook.beside(here, []) as there:
        await here.send("first")
        await here.seen("1 … one")
        assert await here.resume() == "1"
        with pytest.raises(ConversationBusy, match="has a turn running in another process"):
            await there.resume()
        here.model.release()
        await here.over()
        assert here.records()[-1] == "1 ended completed: one"
        assert await here.resume() is None


async def test_a_turn_that_waits_for_an_answer_is_taken_up_by_the_next_process(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [TOUCH], **ASKING) as here:
        await here.send("go")
        await here.seen("1 wonders call1")
        await here.engine.close()
        assert here.records()[-1] == "1 wonders call1"
        async with Playbook.beside(here, [say("done")], **ASKING) as there:
            assert there.engine.in_hand().conversations == 1
            assert there.handle.facts.last_seq == len(here.records())
            assert list(there.handle.facts.questions) == ["call1"]
            assert not inside(there).claim.is_held
            assert await there.resume() == "1"
            assert inside(there).claim.is_held
            assert await there.decide("call1", "approved") is True
            await there.over()
            assert there.records()[-1] == "1 ended completed: done"
    assert (tmp_path / "made").exists()


async def test_a_turn_whose_claim_is_lost_stops_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs: list[LosingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> LosingLog:
        logs.append(LosingLog(state_dir(home), loop))
        return logs[-1]

    monkeypatch.setattr(Playbook, "open_log", staticmethod(open_log))
    async with Playbook(tmp_path, [deltas(["one", HOLD]), say("two")]) as play:
        play.following.wait()
        await play.send("1")
        await play.seen("1 … one")
        logs[0].lose(play.handle.id)
        reason = f"the claim on conversation {play.handle.id} was lost, so its turn was stopped"
        assert reason in await play.failure()
        assert any(line.startswith(reason) for line in caplog.messages), "whoever runs the server can see it"
        play.handle.follow(play).go_live()
        await play.send("2")
        await play.over(2)
        ends = [line for line in play.records() if " ended " in line]
        assert ends == ["1 ended interrupted: Turn interrupted", "2 ended completed: two"]


async def test_a_turn_hears_of_other_processes_though_nobody_watches_here(tmp_path: Path) -> None:
    script = [deltas(["one", HOLD]), say("two")]
    async with Playbook(tmp_path, script) as here, Playbook.beside(here, []) as there:
        unwatched = await here.engine.create(LOCAL, Overrides(cwd=str(tmp_path)))
        await unwatched.submit(unwatched.message(HI))
        await here.model.next_request(1)
        await unwatched.durable()
        found = await there.engine.find(LOCAL, unwatched.id)
        sent = await found.submit(found.message(HI))
        assert (sent.turn, sent.joined) == ("1", True)
        async with asyncio.timeout(WAIT_SECONDS):
            while not unwatched.has_message(sent.message_id):
                await unwatched.committed()
                await asyncio.sleep(0.01)
        here.model.release()
        await here.model.next_request(2)
        assert here.asked_of_the_model()[1] == ["user hi", "assistant one", "user hi"]


async def test_who_only_means_to_send_finds_all_that_the_store_has(tmp_path: Path) -> None:
    async with Playbook(tmp_path, []) as here, Playbook.beside(here, []) as there:
        known = await here.engine.create(LOCAL, Overrides(cwd=str(tmp_path)))
        known._conversation.tail.append(Noticed("a"), turn="1")  # pyright: ignore[reportPrivateUsage]
        await known.durable()
        found = await there.engine.find(LOCAL, known.id, to_send=True)
        assert found.facts == known.facts
        assert (found.facts.last_seq, found.published) == (2, 2)


async def test_one_that_is_not_in_the_store_is_not_found(tmp_path: Path) -> None:
    async with Playbook(tmp_path, []) as play:
        with pytest.raises(UnknownConversation, match="no conversation 00000000-0000-4000-8000-000000000000"):
            await play.engine.find(LOCAL, ConversationId("00000000-0000-4000-8000-000000000000"))


# -- what is said of an op


async def test_an_interrupt_and_a_cancel_say_whether_they_have_met_a_turn(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD]), deltas(["two", HOLD])]) as play:

        async def submit(op: Op) -> Accepted:
            return await play.handle.submit(op)

        assert await submit(Interrupt()) == Accepted(turn=None, effective=False)
        assert await submit(Cancel("nobody's")) == Accepted("nobody's", "", effective=False)
        await play.send("1")
        await play.seen("1 … one")
        assert await submit(Interrupt("9")) == Accepted(turn=None, effective=False)
        first = play.handle.message_of_turn("1") or ""
        assert await submit(Interrupt("1")) == Accepted(turn="1", effective=True)
        await play.over()
        assert await submit(Cancel(first, "1")) == Accepted(first, "1", effective=False)
        await play.send("2")
        await play.seen("3 … two")
        second = play.handle.message_of_turn("3") or ""
        assert await submit(Cancel(second)) == Accepted(second, "", effective=True)
        await play.over(2)
        assert play.records()[-1] == "3 ended interrupted: Turn interrupted"


async def test_a_refusal_comes_once_what_it_follows_from_is_in_the_log(tmp_path: Path) -> None:
    async with Playbook(tmp_path, []) as play:
        await on_disk(play)
        inside(play).tail.append(Noticed("a"), turn="1")
        assert (play.handle.published, play.handle.facts.last_seq) == (1, 2)
        with pytest.raises(AgentError):
            await play.handle.submit(play.handle.message(HI, None, "no such message"))
        assert (play.handle.published, play.handle.facts.last_seq) == (2, 2)


# -- what comes after a turn


async def test_a_message_with_a_turn_of_its_own_begins_when_the_running_one_is_over(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD]), say("two")]) as play:
        await play.send("first")
        await play.seen("1 … one")
        durable = Durable()
        assert await play.send("second", own_turn=True, durable=durable) == "queues"
        async with asyncio.timeout(WAIT_SECONDS):
            await durable
        assert play.records()[-1] == "1 queues second"
        play.model.release()
        await play.over(2)
        assert play.asked_of_the_model() == [["user first"], ["user first", "assistant one", "user second"]]


async def test_an_answer_that_is_no_end_lets_later_messages_join(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [TOUCH, deltas(["ok", HOLD]), say("end")], **ASKING) as play:
        await play.send("go")
        await play.seen("1 wonders call1")
        assert await play.decide("call1", "approved", turn="9") is False, "of another turn"
        assert not [line for line in play.records() if "decided" in line]
        assert await play.decide("nobody", "abort") is False
        assert await play.decide("call1", "approved", turn="1") is True
        await play.seen("1 … ok")
        assert await play.send("more") == "joins"
        play.model.release()
        await play.over()
        assert play.records()[-1] == "1 ended completed: end"


async def test_a_process_that_ends_refuses_what_waits_and_what_comes(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [call("shell", command=["sleep", "60"], timeout=100_000)]) as play:
        await play.send("go")
        await play.seen("1 runs call1 sleep 60")
        stopping = asyncio.ensure_future(play.interrupt())
        await asyncio.sleep(0)
        durable = Durable()
        assert await play.send("instead", durable=durable) == "waits"
        await inside(play).stop()
        with pytest.raises(StoreError, match="is ending"):
            await durable
        with pytest.raises(AgentError):
            await play.send("late")
        with pytest.raises(StoreError, match="is ending"):
            await inside(play).submit(Rename("late"))
        await stopping
        await on_disk(play)
        assert play.records()[-1] == "1 ended interrupted: Turn interrupted"


async def test_a_message_that_waits_when_the_log_fails_hears_it_and_begins_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[LosingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> LosingLog:
        logs.append(LosingLog(state_dir(home), loop))
        return logs[-1]

    monkeypatch.setattr(Playbook, "open_log", staticmethod(open_log))
    async with Playbook(tmp_path, [call("shell", command=["sleep", "60"], timeout=100_000)]) as play:
        await play.send("go")
        await play.seen("1 runs call1 sleep 60")
        stopping = asyncio.ensure_future(play.interrupt())
        await asyncio.sleep(0)
        durable = Durable()
        assert await play.send("instead", durable=durable) == "waits"
        logs[0].lose(play.handle.id)
        assert durable.failed
        with pytest.raises(AgentError, match="was lost, so its turn was stopped"):
            await durable
        with contextlib.suppress(AgentError):
            await stopping
        assert not [line for line in play.records() if "instead" in line]


# -- viewers who read again


@pytest.mark.parametrize("shown_before", [0, 1])
async def test_who_reads_what_the_disk_has_before_it_was_shown_shows_it_to_all(tmp_path: Path, shown_before: int) -> None:
    async with Playbook(tmp_path, []) as play:
        await on_disk(play)
        conversation = inside(play)
        before = conversation.tail.broadcast.published
        conversation.tail.append(Noticed("a"), Noticed("b"), Noticed("c"), turn="1")
        conversation.tail.flush()
        await asyncio.sleep(0)  # the writer is given it
        deadline = time.monotonic() + WAIT_SECONDS
        while len(play.entries()) < before + 3:  # nothing else happens here meanwhile
            assert time.monotonic() < deadline
        found = [entry.seq for entry in await play.handle.read(before - shown_before)]
        assert found == list(range(before - shown_before + 1, before + 4))
        assert play.shown == ["0 opened", "1 notes a", "1 notes b", "1 notes c"]
        assert conversation.tail.broadcast.published == before + 3
        assert [entry.seq for entry in await play.handle.read(before, 1)] == [before + 1]
        assert conversation.tail.broadcast.published == before + 3
        assert await play.handle.read(before + 3) == []


# -- whether it may leave memory


async def test_only_what_nobody_needs_is_quiet(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD])]) as play:
        conversation = inside(play)
        await on_disk(play)
        assert (conversation.needs_watching, conversation.is_quiet) == (True, False), "somebody follows"
        play.following.stop()
        assert (conversation.needs_watching, conversation.is_quiet) == (False, True)

        await play.send("go")
        await play.model.next_request(1)
        await on_disk(play)
        assert (conversation.needs_watching, conversation.is_quiet) == (True, False), "a turn runs"
        assert conversation.claim.is_held
        play.model.release()
        async with asyncio.timeout(WAIT_SECONDS):
            await conversation.running.ended()
        await on_disk(play)
        assert (conversation.needs_watching, conversation.is_quiet) == (False, True)

        conversation.tail.append(Noticed("a"), turn="1")
        assert (conversation.needs_watching, conversation.is_quiet) == (False, False), "something is on its way to the disk"
        await on_disk(play)
        assert conversation.is_quiet
        await conversation.claim.take()
        assert not conversation.is_quiet, "other processes have to be let in first"
        conversation.release_if_idle()
        assert (conversation.claim.is_held, conversation.is_quiet) == (False, True)


async def test_a_process_that_has_only_looked_for_it_keeps_it_as_long_as_it_is_needed(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [deltas(["one", HOLD]), say("two")]) as here, Playbook.beside(here, []) as there:
        there.following.stop()
        assert inside(there).is_quiet
        await here.send("first")
        await here.seen("1 … one")
        await there.send("second")
        assert (inside(there).needs_watching, inside(there).is_quiet) == (True, False), "its message is not in the log yet"
        await here.seen("1 user second")
        here.model.release()
        await here.over()


async def test_an_archived_one_is_among_the_archived_ones(tmp_path: Path) -> None:
    async with Playbook(tmp_path, []) as play:
        await on_disk(play)
        for archived in (True, False):
            await play.handle.submit(Archive(archived))
            page = await play.engine.list(LOCAL, 10, archived=archived)
            assert [listed.conversation_id for listed in page.rows] == [play.handle.id]


async def test_one_that_was_forgotten_says_so_and_its_handle_finds_another(tmp_path: Path) -> None:
    async with Playbook(tmp_path, [say("a")]) as play:
        await on_disk(play)
        play.following.stop()
        conversation = inside(play)
        del play.engine._conversations[play.handle.id]  # pyright: ignore[reportPrivateUsage]
        conversation.forget()
        assert conversation.standing.phase is FORGOTTEN
        assert await play.send("hi") == "begins"
        found = play.engine._conversations[play.handle.id]  # pyright: ignore[reportPrivateUsage]
        assert found is not conversation
        async with asyncio.timeout(WAIT_SECONDS):
            await found.running.ended()
            await found.tail.committed()
        assert play.records()[-1] == "1 ended completed: a"
