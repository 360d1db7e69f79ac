"""What a front end learns and does by its handle, as expected values; the test chooses the records."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from tests.support.holding_log import HoldingLog
from tests.support.playbook import Playbook
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.engine.handle import Facts, Handle
from understudy.engine.log.broadcast import LiveDelta
from understudy.engine.log.durable import Durable
from understudy.engine.services.observing import ModelTiming
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError, BadRequest, LacksRight, StoreError, UnknownConversation
from understudy.protocol.callers import LOCAL, Caller, Right
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCall, InputText, Message, Usage
from understudy.protocol.ops import Archive, Cancel, Compact, Decide, Delete, Interrupt, Op, Rename, Resume, Send, Undo
from understudy.protocol.records import (
    CommandApprovalAsked,
    CommandStarted,
    Delta,
    Entry,
    ItemReceived,
    Overrides,
    ReasoningDelta,
    Record,
    Renamed,
    RequestSent,
    TextDelta,
    TokensCounted,
    TurnQueued,
    TurnStarted,
    UndoEnded,
    UserMessage,
)
from understudy.store.log import GoingOn, RunningCommand
from understudy.testing import call, say
from understudy.testing.waiting import WAIT_SECONDS
from understudy.tools.unsaved_texts import UnsavedTexts

HI = Message("user", (InputText("hi"),))
ASKED = CommandApprovalAsked("call1", ("ls",), "/w")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncGenerator[Engine]:
    (tmp_path / "home").mkdir()
    engine = Engine(cli=[("model", "m"), ("model_provider", "oss")], env={**os.environ, "CODEX_HOME": str(tmp_path / "home")})
    yield engine
    async with asyncio.timeout(WAIT_SECONDS):
        await engine.close()


@pytest.fixture
async def handle(engine: Engine, tmp_path: Path) -> Handle:
    handle = await engine.create(LOCAL, Overrides(cwd=str(tmp_path), approval_policy="never", sandbox="read-only"))
    await handle.durable()
    return handle


async def record(handle: Handle, *records: Record, turn: str = "1") -> None:
    handle._conversation.tail.append(*records, turn=turn)  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(WAIT_SECONDS):
        await handle.durable()


# -- whether something is durable


@pytest.mark.parametrize("error", [None, StoreError("no")])
async def test_all_who_ask_are_told_before_and_after_it_is_known(error: AgentError | None) -> None:
    durable, told = Durable(), list[tuple[int, AgentError | None]]()
    for number in range(3):
        durable.when_known(lambda error, number=number: told.append((number, error)))
    assert (told, durable.failed) == ([], False)
    durable.tell(error)
    durable.when_known(lambda error: told.append((3, error)))
    assert told == [(number, error) for number in range(4)]
    assert durable.failed == (error is not None)


async def test_it_can_be_awaited_by_several_one_of_whom_leaves() -> None:
    durable = Durable()

    async def wait() -> None:
        await durable

    first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    durable.tell(StoreError("no"))
    with pytest.raises(StoreError):
        await second
    with pytest.raises(StoreError):
        await durable


# -- rights


OPS: list[tuple[Op, str]] = [
    (Send(UserMessage("m", HI)), "run"),
    (Interrupt(), "run"),
    (Cancel("m"), "run"),
    (Compact(), "run"),
    (Resume(), "run"),
    (Archive(), "run"),
    (Delete(), "run"),
    (Undo("u"), "run"),
    (Rename("t"), "run"),
    (Decide("c", "approved", "client"), "approve"),
]


@pytest.mark.parametrize(("op", "right"), OPS, ids=lambda each: type(each).__name__ if not isinstance(each, str) else each)
async def test_each_op_needs_its_right(engine: Engine, handle: Handle, op: Op, right: str) -> None:
    lacks = frozenset({"run", "approve", "read"} - {right})
    others = await engine.find(Caller("anna", lacks, lacks), handle.id)  # pyright: ignore[reportArgumentType]
    with pytest.raises(LacksRight) as refused:
        await others.submit(op)
    assert str(refused.value) == f"anna does not have the right to {right} on conversation {handle.id}"
    assert (refused.value.right, refused.value.on_others) == (right, True)


@pytest.mark.parametrize(("name", "on_others"), [("anna", True), ("local", False), ("zoe", True)])
async def test_a_refusal_says_whether_the_conversation_is_of_another(
    engine: Engine, handle: Handle, name: str, on_others: bool
) -> None:
    reads = frozenset[Right]({"read"})
    found = await engine.find(Caller(name, reads, reads), handle.id)
    with pytest.raises(LacksRight) as refused:
        found.check_right("run")
    assert refused.value.on_others is on_others


async def test_who_may_not_read_it_does_not_learn_that_it_exists(engine: Engine, handle: Handle) -> None:
    blind = Caller("anna", frozenset({"run", "approve", "read"}), frozenset({"run", "approve"}))
    with pytest.raises(UnknownConversation, match=f"no conversation {handle.id}"):
        await engine.find(blind, handle.id)
    own = await engine.create(blind, Overrides(cwd="/"))
    own.check_right("approve")
    assert own.caller == blind


async def test_an_op_goes_in_the_name_of_its_caller_and_says_by_which_door(handle: Handle, engine: Engine) -> None:
    anna = await engine.find(Caller("anna", frozenset(), frozenset({"run", "read", "approve"}), "door"), handle.id)
    no_say = await engine.find(Caller("bert", frozenset(), frozenset({"run", "read"}), "door"), handle.id)
    checked = anna._checked  # pyright: ignore[reportPrivateUsage]
    assert checked(Interrupt("1", "somebody")) == Interrupt("1", "anna")
    assert checked(Interrupt("1", "aaron")) == Interrupt("1", "anna")
    same = Interrupt("1", "anna")
    assert checked(same) is same
    assert checked(Decide("c", "approved", "client")) == Decide("c", "approved", "client", by="anna", door="door")
    assert checked(Undo("u", approves=False)) == Undo("u", approves=True, by="anna")
    assert no_say._checked(Undo("u", approves=True)) == Undo("u", approves=False, by="bert")  # pyright: ignore[reportPrivateUsage]
    sent = anna.message(HI, Overrides(model="n"), "m0", own_turn=True)
    again = anna.message(HI)
    assert (sent.by, sent.own_turn, sent.message.overrides, sent.message.parent_message_id) == (
        "anna",
        True,
        Overrides(model="n"),
        "m0",
    )
    assert (again.own_turn, again.message.overrides, again.message.parent_message_id) == (False, None, None)
    assert sent.message.message_id != again.message.message_id
    assert [handle.only_looks, anna.only_looks] == [False, False]
    reader = await engine.find(Caller("carl", frozenset(), frozenset({"read"})), handle.id)
    assert reader.only_looks


# -- what is shown of it


async def test_the_facts_of_a_conversation_as_it_is(handle: Handle, tmp_path: Path) -> None:
    idle = Facts("local", "m", str(tmp_path), "never", "read-only", None, False, {}, 1)
    assert handle.facts == idle
    assert (handle.running_turn, len(handle.queued), handle.going_on()) == (None, 0, GoingOn(None, ()))
    await record(handle, UserMessage("m1", HI), TurnStarted("1"), RequestSent(("m1",)), ASKED)
    await record(handle, TokensCounted(Usage(1, 2, 3)), TurnQueued(UserMessage("m2", HI)))
    facts = handle.facts
    asked_at = handle.asked_at("call1")
    assert facts == Facts(
        "local", "m", str(tmp_path), "never", "read-only", "1", False, {"call1": ASKED}, 7, {"call1": asked_at}, Usage(1, 2, 3)
    )  # fmt: skip
    assert asked_at > 0
    assert handle.asked_at("nobody") == 0.0
    assert (handle.open_question("call1"), handle.open_question("nobody")) == (ASKED, None)
    assert (handle.running_turn, len(handle.queued), handle.published) == ("1", 1, 7)
    assert (handle.has_message("m1"), handle.has_message("m9")) == (True, False)
    assert (handle.message_of_turn("1"), handle.message_of_turn("2")) == ("m1", None)
    assert [handle.turn_of_message(name) for name in ("m1", "m2", "m0")] == ["1", None, None]
    assert [entry.seq for entry in await handle.read(4)] == [5, 6, 7]
    assert [entry.seq for entry in await handle.read(0, 2)] == [1, 2]


async def test_what_is_under_way_and_what_is_not(handle: Handle) -> None:
    calls = [FunctionCall("shell", "{}", name) for name in ("c1", "c2")]
    started = CommandStarted("c1", ("make",), "/w", contained=True, session=1001)
    await record(handle, UserMessage("m1", HI), TurnStarted("1"), *(ItemReceived(call) for call in calls), started)
    assert (handle.under_way(), handle.not_begun()) == ((started,), (calls[1],))
    assert handle.commands_going_on() == (RunningCommand(1001, "make"),)
    assert handle.going_on() == GoingOn("1", (RunningCommand(1001, "make"),))
    assert handle.work_of("9") is None


async def test_who_can_be_asked_among_those_who_follow(handle: Handle) -> None:
    class Answers(QuietViewer):
        can_answer = True

    assert not handle.can_be_answered()
    quiet = handle.follow(QuietViewer())
    quiet.go_live()
    assert not handle.can_be_answered()
    handle.follow(Answers()).go_live()
    assert handle.can_be_answered()


async def test_what_a_message_would_run_with(handle: Handle, tmp_path: Path) -> None:
    changed = handle.with_changes(Overrides(model="n"))
    assert (changed.model, changed.cwd, changed.approval_policy) == ("n", str(tmp_path), "never")


async def test_texts_that_an_editor_has_not_saved_are_lent_in_one_place(handle: Handle) -> None:
    lent = handle.unsaved_texts()
    assert isinstance(lent, UnsavedTexts)
    assert handle.unsaved_texts() is lent


async def test_to_settle_is_to_wait_until_the_log_has_what_the_facts_say(handle: Handle) -> None:
    handle._conversation.tail.append(UserMessage("m1", HI), TurnStarted("1"), turn="1")  # pyright: ignore[reportPrivateUsage]
    assert (handle.running_turn, handle.published) == ("1", 1)
    async with asyncio.timeout(WAIT_SECONDS):
        await handle.committed()
    assert handle.published == 3


async def test_reasoning_is_shown_unless_it_is_to_be_hidden(handle: Handle) -> None:
    class Pieces(QuietViewer):
        def __init__(self) -> None:
            self.deltas: list[Delta] = []

        def delta(self, live: LiveDelta) -> None:
            self.deltas.append(live.delta)

    shows, hides = Pieces(), Pieces()
    handle.follow(shows).go_live()
    handle.follow(hides, hides_reasoning=True).go_live()
    for delta in (ReasoningDelta("hm"), TextDelta("so")):
        handle._conversation.tail.emit(delta, "1")  # pyright: ignore[reportPrivateUsage]
    assert (shows.deltas, hides.deltas) == ([ReasoningDelta("hm"), TextDelta("so")], [TextDelta("so")])


class Notes:
    """An observer that writes down which requests are about what."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, ...]] = []

    def called(self, method: str, params: bytes) -> None: ...

    def reached(self, conversation_id: ConversationId) -> None:
        self.noted.append(("reached", conversation_id))

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        self.noted.append(("sent", conversation_id, message_id))

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None: ...

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None: ...

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: ModelTiming) -> None: ...


async def test_an_observer_learns_which_conversation_is_reached_and_which_message_is_sent(engine: Engine, handle: Handle) -> None:
    engine.observer = notes = Notes()
    found = await engine.find(LOCAL, handle.id)
    op = found.message(HI, None, "no such message")
    for each in (op, Interrupt()):
        with contextlib.suppress(AgentError):
            await found.submit(each)
    assert notes.noted == [("reached", handle.id), ("sent", handle.id, op.message.message_id)]


# -- ops that nobody waits for


async def test_a_refusal_that_nobody_waits_for_is_in_the_log(handle: Handle, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    handle.submit_soon(handle.message(HI, None, "no such message"))
    await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_SECONDS):
        await handle.durable()
    assert any(f"Send of {handle.id} was not taken" in line for line in caplog.messages), caplog.messages


async def test_a_bug_that_nobody_waits_for_is_in_the_log(handle: Handle, caplog: pytest.LogCaptureFixture) -> None:
    handle.submit_soon(cast(Op, object()))
    await asyncio.sleep(0)
    assert [line.partition(": ")[2] for line in caplog.messages] == [f"in object of {handle.id}"]


async def test_an_answer_to_a_question_is_told_whether_it_counts_and_when_it_is_durable(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with Playbook(tmp_path, script, approval_policy="untrusted", sandbox_mode="danger-full-access") as play:
        await play.send("go")
        await play.seen("1 wonders call1")
        durable, late = Durable(), Durable()
        assert await play.handle.decide(Decide("call1", "approved", "client"), durable, WAIT_SECONDS) == "counts"
        async with asyncio.timeout(WAIT_SECONDS):
            await durable
        assert "1 decided call1 approved" in play.records()
        await play.over()
        assert await play.handle.decide(Decide("call1", "approved", "client"), late, WAIT_SECONDS) == "closed"
    assert (tmp_path / "made").exists()


async def test_a_title_is_read_and_kept(handle: Handle) -> None:
    assert await handle.rename("  my   title ", WAIT_SECONDS) == "my title"
    assert handle._conversation.state.name == "my title"  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(BadRequest):
        await handle.undo(seconds=WAIT_SECONDS)


# -- what is done in answer to an op, and what another has done


async def test_a_title_is_given_once_its_own_record_is_on_disk_and_not_that_of_another(tmp_path: Path) -> None:
    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> HoldingLog:
        return HoldingLog(state_dir(home), loop)

    (tmp_path / "home").mkdir()
    env = {**os.environ, "CODEX_HOME": str(tmp_path / "home")}
    engine = Engine(cli=[("model", "m"), ("model_provider", "oss")], env=env, open_log=open_log)
    handle = await engine.create(LOCAL, Overrides(cwd=str(tmp_path)))
    await handle.durable()
    log, tail = cast(HoldingLog, engine.log), handle._conversation.tail  # pyright: ignore[reportPrivateUsage]
    log.holds = True
    tail.append(Renamed("a title"), Renamed("your title"), turn="0")
    tail.flush()
    others = handle.durable()
    renaming = asyncio.ensure_future(handle.rename("my title"))
    async with asyncio.timeout(WAIT_SECONDS):
        while len(log.held) < 2:
            log.holding.clear()
            await log.holding.wait()
        log.held.pop(0)()
        await others
        for _ in range(10):
            await asyncio.sleep(0)  # it could go on now
        assert (handle.published, renaming.done()) == (3, False)
        log.let_go()
        assert await renaming == "my title"
        await engine.close()


async def test_an_undo_is_answered_by_its_own_end_and_not_that_of_another(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch"
    script = [call("apply_patch", input=patch), say("done")]
    async with Playbook(tmp_path, script, approval_policy="never", sandbox_mode="danger-full-access") as play:
        await play.send("go")
        await play.over()
        assert (tmp_path / "made.txt").exists()
        tail = play.handle._conversation.tail  # pyright: ignore[reportPrivateUsage]
        tail.append(UndoEnded("0", "1"), UndoEnded("~", "1"), turn="0")
        async with asyncio.timeout(WAIT_SECONDS):
            ended = await play.handle.undo()
        assert ended == play.entries()[-1].record
        assert (ended.taken_back, (tmp_path / "made.txt").exists()) == ((str(tmp_path / "made.txt"),), False)
