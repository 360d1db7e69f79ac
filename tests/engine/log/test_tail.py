"""The live end of a log: an entry is shown once it is on disk, a delta once every entry before it was, and all in program order."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.store.records import new_id, open_log, position_of
from tests.support.answered import answered
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import State
from understudy.engine.log.tail import Tail
from understudy.errors import AgentError, CannotBeRecorded, StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import Message, OutputText
from understudy.protocol.records import (
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    TextDelta,
    TurnStarted,
)
from understudy.store.log import Batch, Committed, SavedText
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS


class Onlooker:
    can_answer = False

    def __init__(self, tail: Tail, log: SqliteLog) -> None:
        self.seen: list[str] = []
        self.error: AgentError | None = None
        self._tail = tail
        self._log = log

    def show(self, live: LiveEntry) -> None:
        position = position_of(self._log, self._tail.conversation_id)
        assert position is not None
        assert position.last_seq >= live.entry.seq, "shown before it was on disk"
        assert isinstance(live.entry.record, Noticed | Opened)
        self.seen.append(live.entry.record.message if isinstance(live.entry.record, Noticed) else "opened")

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        for live in lives:
            assert isinstance(live.delta, TextDelta)
            assert live.after == self._tail.broadcast.published, "a delta carries the number of the last record before it"
            self.seen.append(live.delta.text)

    def fail(self, error: AgentError) -> None:
        self.error = error


async def until(tail: Tail) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        await tail.committed()
        await asyncio.sleep(0)


def new_tail(log: SqliteLog) -> tuple[Tail, Onlooker]:
    tail = Tail(new_id(), log, asyncio.get_running_loop())
    onlooker = Onlooker(tail, log)
    tail.broadcast.followers.append(onlooker)
    tail.begin()
    tail.append(Opened(tail.conversation_id, "m", Overrides()), turn="0")
    return tail, onlooker


@pytest.mark.parametrize("seed", range(6))
async def test_everything_is_shown_in_program_order(tmp_path: Path, seed: int) -> None:
    log, chance = open_log(tmp_path), random.Random(seed)
    tail, onlooker = new_tail(log)
    said = ["opened"]
    for number in range(150):
        word = f"{number}"
        said.append(word)
        if chance.random() < 0.4:
            tail.append(Noticed(word), turn="1")
        else:
            tail.emit(TextDelta(word), "1")
        match chance.randint(0, 5):
            case 0:
                await asyncio.sleep(0)
            case 1:
                tail.flush()
            case 2 if chance.random() < 0.2:
                await until(tail)
            case _:
                pass
    await until(tail)
    assert onlooker.seen == said
    tail.close()
    log.close()


class CountingLog(SqliteLog):
    batches = 0

    def append(self, batch: Batch, done: Committed) -> None:
        self.batches += 1
        super().append(batch, done)


async def test_what_a_short_turn_appends_shares_one_commit(tmp_path: Path) -> None:
    log = CountingLog(tmp_path, asyncio.get_running_loop())
    tail, onlooker = new_tail(log)
    for number in range(5):
        tail.append(Noticed(str(number)), turn="1")
        tail.emit(TextDelta("…"), "1")
    await until(tail)
    assert onlooker.seen == ["opened", *(word for number in range(5) for word in (str(number), "…"))]
    assert log.batches == 1
    tail.close()
    log.close()


async def test_records_nobody_asks_for_reach_the_disk_by_themselves(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    tail.append(Noticed("quiet"), turn="1")
    shown = asyncio.Event()
    tail.when_committed(shown.set)
    async with asyncio.timeout(WAIT_SECONDS):
        await shown.wait()
    assert onlooker.seen == ["opened", "quiet"]
    tail.close()
    log.close()


async def test_a_delta_waits_for_the_entry_before_it_and_goes_at_once_else(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    await until(tail)
    tail.emit(TextDelta("at once"), "1")
    assert onlooker.seen == ["opened", "at once"]
    tail.append(Noticed("entry"), turn="1")
    tail.emit(TextDelta("after it"), "1")
    assert onlooker.seen == ["opened", "at once"]
    await until(tail)
    assert onlooker.seen == ["opened", "at once", "entry", "after it"]
    tail.close()
    log.close()


async def test_an_acknowledgement_comes_once_it_is_on_disk_and_before_anyone_is_shown_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    told: list[tuple[AgentError | None, list[str]]] = []
    tail.when_durable(lambda error: told.append((error, list(onlooker.seen))))
    tail.append(Noticed("later"), turn="1")
    await until(tail)
    assert told == [(None, [])]
    tail.when_durable(lambda error: told.append((error, list(onlooker.seen))))
    await asyncio.sleep(0)
    assert told[1] == (None, ["opened", "later"])
    log.close()


async def test_an_entry_that_cannot_be_written_fails_all_who_wait_and_is_never_shown(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    await until(tail)
    log.delete(tail.conversation_id, lambda _: None)  # so that the next append matches nothing
    told: list[AgentError | None] = []
    back: list[bool] = []
    tail.append(Noticed("lost"), turn="1")
    tail.when_durable(told.append)
    tail.when_committed(lambda: back.append(True))
    with pytest.raises(StoreError):
        await until(tail)
    assert onlooker.seen == ["opened"]
    assert isinstance(onlooker.error, StoreError)
    assert told == [onlooker.error]
    assert back == [True]
    assert tail.idle
    tail.append(Noticed("ignored"), turn="1")
    tail.when_durable(told.append)
    await asyncio.sleep(0)
    assert told[1] is onlooker.error, "who comes later is told too"
    log.close()


async def test_the_text_so_far_is_kept_beside_the_log_and_goes_with_the_item(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail = Tail(new_id(), log, asyncio.get_running_loop())
    tail.begin()
    tail.append(Opened(tail.conversation_id, "m", Overrides()), TurnStarted("1"), turn="1")
    await until(tail)
    tail.emit(TextDelta("half "), "1")
    tail.emit(TextDelta("of it"), "1")
    name: ConversationId = tail.conversation_id
    async with asyncio.timeout(WAIT_SECONDS):
        while (kept := answered(log.saved_text(name))) is None:  # noqa: ASYNC110  # nothing tells when it is there
            await asyncio.sleep(0.01)
    assert kept == SavedText(2, "half of it")
    tail.append(ItemReceived(Message("assistant", (OutputText("half of it, and all"),))), turn="1")
    tail.emit(TextDelta("more"), "1")
    await until(tail)
    assert answered(log.saved_text(name)) is None
    tail.close()
    log.close()


async def test_after_a_failure_nothing_is_appended_until_the_store_is_read_anew(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    await until(tail)
    log.delete(tail.conversation_id, lambda _: None)
    tail.append(Noticed("lost"), turn="1")
    with pytest.raises(StoreError):
        await until(tail)
    before = tail.state.last_seq
    tail.append(Noticed("ignored"), turn="1")
    tail.emit(TextDelta("of a turn that did not happen"), "1")
    assert not tail.broadcast.text
    tail.flush()
    assert (tail.state.last_seq, tail.idle) == (before, True)
    with pytest.raises(StoreError):
        await tail.committed()
    tail.load(State(), 0)
    assert tail.failure is None
    tail.begin()
    tail.append(Noticed("again"), turn="1")
    await until(tail)
    assert onlooker.seen == ["opened", "again"]
    log.close()


class SlowLog(SqliteLog):
    """Whoever has the outcomes says when a batch is written."""

    def __init__(self, folder: Path, outcomes: list[Committed]) -> None:
        super().__init__(folder, asyncio.get_running_loop())
        self._outcomes = outcomes

    def append(self, batch: Batch, done: Committed) -> None:
        self._outcomes.append(done)


async def test_what_became_of_a_batch_from_before_the_store_was_read_anew_counts_no_more(tmp_path: Path) -> None:
    outcomes: list[Committed] = []
    log = SlowLog(tmp_path, outcomes)
    tail = Tail(new_id(), log, asyncio.get_running_loop())
    tail.load(State(), 1)
    for word in ("one", "two"):
        tail.append(Noticed(word), turn="1")
        tail.flush()
    first, second = outcomes
    first(StoreError("the disk is full"))
    assert str(tail.failure) == "the disk is full"
    tail.load(State(), 1)
    second(StoreError("taken over by another process"))
    assert tail.failure is None
    tail.append(Noticed("three"), turn="1")
    tail.flush()
    second(None)
    assert tail.broadcast.published == 0, "nothing is shown for a batch of before"
    outcomes[2](None)
    assert tail.broadcast.published == 1
    log.close()


class Clumsy:
    """A viewer with a bug."""

    can_answer = False

    def __init__(self) -> None:
        self.told: list[str] = []

    def show(self, live: LiveEntry) -> None:
        raise KeyError("bug")

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        raise KeyError("bug")

    def fail(self, error: AgentError) -> None:
        self.told.append(str(error))


async def test_a_bug_in_one_viewer_ends_that_viewer_and_no_other(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    clumsy = Clumsy()
    tail.broadcast.followers.insert(0, clumsy)
    tail.append(Noticed("one"), turn="1")
    await until(tail)
    assert onlooker.seen == ["opened", "one"]
    assert tail.broadcast.followers == [onlooker]
    assert len(clumsy.told) == 1
    assert clumsy.told[0].startswith("internal error")
    log.close()


@pytest.mark.slow
async def test_a_record_that_cannot_be_kept_is_refused_and_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    tail, onlooker = new_tail(log)
    deep: Any = []
    for _ in range(1_000_000):
        deep = [deep]
    with pytest.raises(CannotBeRecorded, match="`opened` cannot be kept"):
        tail.append(Noticed("x"), Opened("c", "m", Overrides(config={"a": deep})), turn="1")
    tail.append(Noticed("caf\udce9"), turn="1")
    await until(tail)
    assert onlooker.seen == ["opened", "caf\\udce9"]
    assert [entry.seq for entry in answered(log.read(tail.conversation_id))] == [1, 2]
    log.close()
