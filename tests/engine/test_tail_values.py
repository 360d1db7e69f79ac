"""What the live end hands to the log, batch by batch, and whom it tells what, when the log says how that went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from tests.store.records import new_id
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.engine.log.fold import State
from understudy.engine.log.tail import Tail
from understudy.engine.log.unfinished_text import SAVE_SECONDS
from understudy.errors import AgentError, Fenced, StoreError
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import Message, OutputText
from understudy.protocol.records import (
    CommandEnded,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from understudy.store.log import Batch, Committed, SavedText
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS, Watched

ITEM = ItemReceived(Message("assistant", (OutputText("hello"),)))


class HeldLog(SqliteLog):
    """Writes nothing: whoever holds it says how each batch went."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, asyncio.get_running_loop())
        self.batches: list[Batch] = []
        self.outcomes: list[Committed] = []
        self.partials: list[tuple[SavedText, bool]] = []
        self.partial_outcomes: list[Committed] = []
        self.watched = Watched()

    def append(self, batch: Batch, done: Committed) -> None:
        self.batches.append(batch)
        self.outcomes.append(done)
        self.watched.change()

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        assert epoch == self.batches[-1].epoch
        self.partials.append((said, adds))
        assert done is not None
        self.partial_outcomes.append(done)
        self.watched.change()

    async def saved(self, count: int) -> None:
        await self.watched.until(lambda: len(self.partials) >= count or None, f"{count} partials in {self.partials}")


class Viewer:
    can_answer = False

    def __init__(self) -> None:
        self.seen: list[str] = []

    def show(self, live: LiveEntry) -> None:
        record = live.entry.record
        self.seen.append(f"{live.entry.seq} {record.message if isinstance(record, Noticed) else type(record).__name__}")

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        for live in lives:
            assert isinstance(live.delta, TextDelta | ReasoningDelta)
            self.seen.append(f"{live.turn} after {live.after}: {live.delta.text}")

    def fail(self, error: AgentError) -> None:
        self.seen.append(f"failed: {error}")


class Scene:
    def __init__(self, folder: Path) -> None:
        self.log = HeldLog(folder)
        self.tail = Tail(new_id(), self.log, asyncio.get_running_loop())
        self.viewer = Viewer()
        self.tail.broadcast.followers.append(self.viewer)

    def begin(self, *words: str) -> None:
        self.tail.begin()
        self.tail.append(Opened(self.tail.conversation_id, "m", Overrides()), TurnStarted("1"), turn="1")
        self.flush()
        self.note(*words)

    def note(self, *words: str) -> None:
        for word in words:
            self.tail.append(Noticed(word), turn="1")
            self.tail.flush()

    def flush(self) -> None:
        self.tail.flush()
        self.log.outcomes[-1](None)

    def heads(self) -> list[tuple[int, int, list[int], bool, bool]]:
        """Epoch, the number before, the numbers, and whether it claims or creates."""
        return [
            (batch.epoch, batch.previous_seq, [entry.seq for entry in batch.entries], batch.claims, batch.creates)
            for batch in self.log.batches
        ]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.tail.close()
    scene.log.close()


# -- batches


async def test_the_first_batch_makes_the_conversation_and_the_others_go_on_from_it(scene: Scene) -> None:
    tail = scene.tail
    tail.begin()
    tail.append(Opened(tail.conversation_id, "m", Overrides()), Noticed("a"), turn="0")
    tail.flush()
    tail.append(Noticed("b"), turn="1")
    tail.flush()
    tail.flush()
    assert scene.heads() == [(1, 0, [1, 2], False, True), (1, 2, [3], False, False)]
    first, second = scene.log.batches
    assert [(entry.parent, entry.turn, entry.record) for entry in (*first.entries[1:], *second.entries)] == [
        (1, "0", Noticed("a")),
        (2, "1", Noticed("b")),
    ]
    assert first.conversation_id == tail.conversation_id
    assert first.summary == tail.state.summary()
    assert [len(batch.encoded) for batch in (first, second)] == [2, 1]
    assert b"opened" in first.encoded[0]
    assert [(batch.clears_text, batch.takes_letters) for batch in (first, second)] == [(False, 0), (False, 0)]


async def test_what_the_store_holds_is_gone_on_from_with_a_new_epoch(scene: Scene) -> None:
    tail = scene.tail
    state = State.of([Entry(seq, seq - 1, "1", 1.0, Noticed(str(seq))) for seq in (1, 2, 3)])
    tail.load(state, 6)
    assert tail.state is state
    async with asyncio.timeout(WAIT_SECONDS):
        await tail.committed()
    scene.note("a", "b")
    assert scene.heads() == [(7, 3, [4], True, False), (7, 4, [5], False, False)]


async def test_each_claim_raises_the_epoch_once_if_it_writes(scene: Scene) -> None:
    tail = scene.tail
    tail.begin()
    tail.resume()
    scene.note("a")
    tail.resume()
    tail.resume()
    scene.note("b", "c")
    tail.resume()
    scene.note("d")
    tail.load(State(), 8)
    tail.resume()
    scene.note("e")
    assert [(epoch, claims, creates) for epoch, _, _, claims, creates in scene.heads()] == [
        (1, False, True),
        (2, True, False),
        (2, False, False),
        (3, True, False),
        (9, True, False),
    ]


async def test_the_stored_epoch_is_the_one_that_the_last_batch_handed_over_brings(scene: Scene) -> None:
    tail, stored = scene.tail, list[int]()
    tail.begin()
    stored.append(tail.stored_epoch)
    scene.note("a")
    stored.append(tail.stored_epoch)
    tail.load(tail.state, 6)
    stored.append(tail.stored_epoch)
    scene.note("b", "c")
    stored.append(tail.stored_epoch)
    tail.resume()
    stored.append(tail.stored_epoch)
    scene.note("d")
    stored.append(tail.stored_epoch)
    assert stored == [0, 1, 6, 7, 7, 8]


async def test_what_was_not_handed_over_when_the_store_is_read_anew_is_neither_written_nor_shown(scene: Scene) -> None:
    scene.begin()
    scene.tail.append(Noticed("of before"), turn="1")
    scene.tail.load(State.of(scene.log.batches[0].entries), 1)
    assert scene.tail.idle
    scene.note("a")
    scene.log.outcomes[-1](None)
    assert [entry.record for entry in scene.log.batches[-1].entries] == [Noticed("a")]
    assert scene.viewer.seen[2:] == ["3 a"]


async def test_letters_are_taken_by_the_next_batch_alone(scene: Scene) -> None:
    scene.begin()
    scene.tail.take_letters(7)
    scene.note("a", "b")
    assert [batch.takes_letters for batch in scene.log.batches] == [0, 7, 0]


async def test_what_is_asked_for_is_handed_over_at_the_end_of_the_step_every_time(scene: Scene) -> None:
    tail = scene.tail
    scene.begin()
    for word in ("a", "b"):
        tail.append(Noticed(word), turn="1")
        tail.flush_soon()
        tail.append(Noticed(word), turn="1")
        tail.flush_soon()
        count = len(scene.log.batches)
        await asyncio.sleep(0)
        assert [len(batch.entries) for batch in scene.log.batches[count:]] == [2]


async def test_what_nobody_asks_for_is_held_a_moment_every_time(scene: Scene) -> None:
    tail = scene.tail
    scene.begin()
    for count, word in enumerate(("a", "b"), start=2):
        tail.append(Noticed(word), turn="1")
        tail.append(Noticed(word), turn="1")
        assert len(scene.log.batches) == count - 1
        await scene.log.watched.until(lambda count=count: len(scene.log.batches) >= count or None, "a batch")
    assert [len(batch.entries) for batch in scene.log.batches] == [2, 2, 2]


async def test_what_waits_for_the_disk_is_known(scene: Scene) -> None:
    tail = scene.tail
    scene.begin()
    assert (tail.idle, tail.broadcast.unpublished()) == (True, [])
    tail.append(Noticed("a"), turn="1")
    tail.emit(TextDelta("x"), "1")
    assert (tail.idle, [entry.seq for entry in tail.broadcast.unpublished()]) == (False, [3])
    tail.flush()
    assert (tail.idle, [entry.seq for entry in tail.broadcast.unpublished()]) == (False, [3])
    scene.log.outcomes[-1](None)
    assert (tail.idle, tail.broadcast.unpublished()) == (True, [])


# -- how they went


async def test_each_is_told_when_what_it_waits_for_is_written_and_not_before(scene: Scene) -> None:
    tail, told = scene.tail, list[str]()
    scene.begin()
    waits: list[asyncio.Task[None]] = []
    for word in ("a", "b"):
        tail.append(Noticed(word), turn="1")
        tail.when_committed(lambda word=word: told.append(f"{word} committed"))
        tail.when_durable(lambda error, word=word: told.append(f"{word} accepted {error} {scene.viewer.seen[2:]}"))
        waits.append(asyncio.create_task(tail.committed()))
        await asyncio.sleep(0)
    first, second = scene.log.outcomes[1:]
    first(None)
    assert told == ["a accepted None []"]
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [True, False]
    assert told[1:] == ["a committed"]
    second(None)
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*waits)
    await asyncio.sleep(0)
    assert told[2:] == ["b accepted None ['3 a']", "b committed"]
    assert scene.viewer.seen[2:] == ["3 a", "4 b"]


async def test_who_asks_when_all_is_written_is_told_in_the_next_step(scene: Scene) -> None:
    tail, told = scene.tail, list[object]()
    scene.begin()
    tail.when_committed(lambda: told.append("committed"))
    tail.when_durable(told.append)
    assert told == []
    await asyncio.sleep(0)
    assert told == ["committed", None]


async def test_several_who_wait_for_records_of_one_batch_are_each_told_once(scene: Scene) -> None:
    tail, told = scene.tail, list[str]()
    scene.begin()
    for word in ("a", "b"):
        tail.append(Noticed(word), turn="1")
        tail.when_committed(lambda word=word: told.append(word))
    scene.flush()
    await asyncio.sleep(0)
    tail.append(Noticed("c"), turn="1")
    tail.when_committed(lambda: told.append("c"))
    scene.flush()
    await asyncio.sleep(0)
    assert told == ["a", "b", "c"]


async def test_to_wait_for_the_disk_hands_over_in_the_same_step(scene: Scene) -> None:
    scene.begin()
    scene.tail.append(Noticed("a"), turn="1")
    wait = asyncio.create_task(scene.tail.committed())
    await asyncio.sleep(0)
    assert [len(batch.entries) for batch in scene.log.batches] == [2, 1]
    scene.log.outcomes[-1](None)
    async with asyncio.timeout(WAIT_SECONDS):
        await wait


async def test_to_wait_for_an_acknowledgement_hands_it_over(scene: Scene) -> None:
    scene.begin()
    scene.tail.append(Noticed("a"), turn="1")
    scene.tail.when_durable(lambda _: None)
    await asyncio.sleep(0)
    assert len(scene.log.batches) == 2


async def test_one_who_has_stopped_waiting_does_not_keep_the_others_from_being_told(scene: Scene) -> None:
    scene.begin("a")
    waits = [asyncio.create_task(scene.tail.committed()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.wait(waits[:1])
    scene.log.outcomes[-1](None)
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.gather(*waits[1:])


async def test_that_all_is_written_is_told_before_the_last_of_it_is_shown(scene: Scene) -> None:
    told: list[list[str]] = []
    scene.begin("a", "b")
    scene.tail.on_all_written = lambda: told.append(list(scene.viewer.seen))
    scene.log.outcomes[1](None)
    assert told == []
    scene.log.outcomes[2](None)
    assert told == [["1 Opened", "2 TurnStarted", "3 a"]]


async def test_after_a_failure_it_is_known_until_when_a_later_batch_may_be_written(scene: Scene) -> None:
    told: list[bool] = []
    scene.begin("a", "b")
    scene.tail.on_all_written = lambda: told.append(scene.tail.may_still_be_written)
    assert (scene.tail.may_still_be_written, told) == (False, [])  # nothing has failed
    scene.log.outcomes[1](StoreError("disk"))
    waits = asyncio.create_task(scene.tail.all_refused())
    await asyncio.sleep(0)
    assert (scene.tail.may_still_be_written, waits.done(), told) == (True, False, [])
    scene.log.outcomes[2](Fenced("it does not fit"))
    async with asyncio.timeout(WAIT_SECONDS):
        await waits
    assert (scene.tail.may_still_be_written, told) == (False, [False])


async def test_what_is_known_to_be_on_disk_never_becomes_less(scene: Scene) -> None:
    scene.begin("a", "b")
    scene.tail.note_committed(4)
    assert scene.viewer.seen[2:] == ["3 a", "4 b"]
    scene.log.outcomes[1](None)
    scene.log.outcomes[2](None)
    async with asyncio.timeout(WAIT_SECONDS):
        await scene.tail.committed()
    scene.note("c")
    assert scene.viewer.seen[2:] == ["3 a", "4 b"], "and no more than was said"
    scene.tail.note_committed(9)
    async with asyncio.timeout(WAIT_SECONDS):
        await scene.tail.committed()
    told: list[object] = []
    scene.tail.when_committed(lambda: told.append("committed"))
    scene.tail.when_durable(told.append)
    await asyncio.sleep(0)
    assert told == ["committed", None]


@pytest.mark.parametrize(
    ("error", "words"), [(StoreError("it is full"), "it is full"), (OSError("bad sector"), "conversation store: bad sector")]
)
async def test_a_failure_is_told_once_to_everyone_with_its_reason(scene: Scene, error: Exception, words: str) -> None:
    tail, told = scene.tail, list[str]()
    scene.begin("a", "b")
    tail.on_failure = lambda: told.append("on_failure")
    tail.when_committed(lambda: told.append("committed"))
    tail.when_durable(lambda error: told.append(f"accepted {error}"))
    tail.emit(TextDelta("never shown"), "1")
    waits = [asyncio.create_task(tail.committed()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.wait(waits[:1])
    tail.append(Noticed("not handed over"), turn="1")
    scene.log.outcomes[1](error)
    assert told == ["on_failure", f"accepted {words}", "committed"]
    for wait in waits[1:]:
        with pytest.raises(StoreError, match=f"^{words}$"):
            await wait
    scene.log.outcomes[2](StoreError("another"))
    assert scene.viewer.seen[2:] == [f"failed: {words}"]
    assert str(tail.failure) == words
    assert (tail.idle, bool(tail.broadcast.text)) == (True, False)
    tail.flush()
    assert len(scene.log.batches) == 3
    tail.when_committed(lambda: told.append("committed too"))
    tail.when_durable(lambda error: told.append(f"accepted {error} too"))
    await asyncio.sleep(0)
    assert told[3:] == ["committed too", f"accepted {words} too"]


async def test_text_that_was_shown_before_a_failure_is_no_part_of_the_next_answer(scene: Scene) -> None:
    scene.begin()
    scene.tail.emit(TextDelta("half"), "1")
    assert scene.tail.broadcast.text.deltas() == [TextDelta("half")]
    scene.note("a")
    scene.log.outcomes[-1](StoreError("it is full"))
    assert scene.tail.broadcast.text.deltas() == []


async def test_a_tail_that_failed_can_be_used_again_once_the_store_is_read_anew(scene: Scene) -> None:
    scene.begin("a")
    scene.log.outcomes[-1](StoreError("it is full"))
    scene.tail.load(State.of(scene.log.batches[0].entries), 1)
    scene.note("b")
    scene.log.outcomes[-1](None)
    assert scene.viewer.seen[2:] == ["failed: it is full", "3 b"]
    assert scene.heads()[-1] == (2, 2, [3], True, False)


# -- showing


async def test_a_delta_behind_an_entry_hands_the_entry_over(scene: Scene) -> None:
    scene.begin()
    scene.tail.append(Noticed("a"), turn="1")
    scene.tail.emit(TextDelta("x"), "1")
    await asyncio.sleep(0)
    assert len(scene.log.batches) == 2
    assert scene.viewer.seen[2:] == []
    scene.log.outcomes[-1](None)
    assert scene.viewer.seen[2:] == ["3 a", "1 after 3: x"]


async def test_what_another_process_wrote_and_said_is_shown_beyond_what_is_known(scene: Scene) -> None:
    tail = scene.tail
    tail.broadcast.publish_foreign([Entry(4, 3, "2", 1.0, Noticed("a")), Entry(5, 4, "2", 1.0, Noticed("b"))])
    assert tail.broadcast.published == 5
    tail.broadcast.publish_foreign_text(SavedText(5, "half"), "2")
    tail.broadcast.publish_foreign_text(SavedText(5, "half of it", "thought"), "2")
    assert scene.viewer.seen == ["4 a", "5 b", "2 after 5: half", "2 after 5: thought", "2 after 5:  of it"]


class Clumsy(Viewer):
    """Has a bug wherever it can have one."""

    def show(self, live: LiveEntry) -> None:
        raise KeyError("show")

    def show_deltas(self, lives: Sequence[LiveDelta]) -> None:
        raise KeyError("show_deltas")

    def fail(self, error: AgentError) -> None:
        super().fail(error)
        raise KeyError("fail")


async def test_a_viewer_with_bugs_is_let_go_and_the_others_see_and_are_told_all(scene: Scene) -> None:
    scene.begin()
    clumsy = [Clumsy(), Clumsy(), Clumsy()]
    followers = scene.tail.broadcast.followers
    followers.insert(0, clumsy[0])
    scene.note("a")
    scene.log.outcomes[-1](None)
    assert followers == [scene.viewer]
    followers.insert(0, clumsy[1])
    scene.tail.emit(TextDelta("x"), "1")
    assert followers == [scene.viewer]
    followers.insert(0, clumsy[2])
    scene.tail.broadcast.fail(StoreError("it is full"))
    assert scene.viewer.seen[2:] == ["3 a", "1 after 3: x", "failed: it is full"]
    assert [len(one.seen) for one in clumsy] == [1, 1, 1]
    assert clumsy[2].seen == ["failed: it is full"]


class Leaving(Viewer):
    """Leaves at the first thing it is shown, and has a bug then."""

    def __init__(self, tail: Tail) -> None:
        super().__init__()
        self._tail = tail

    def show(self, live: LiveEntry) -> None:
        self._tail.broadcast.followers.remove(self)
        raise KeyError("gone")


async def test_a_viewer_may_leave_while_it_is_shown_something(scene: Scene) -> None:
    scene.begin()
    scene.tail.broadcast.followers.insert(0, Leaving(scene.tail))
    scene.note("a")
    scene.log.outcomes[-1](None)
    assert scene.tail.broadcast.followers == [scene.viewer]
    assert scene.viewer.seen[2:] == ["3 a"]


# -- the text so far


async def past_the_next_look() -> None:
    """Timers are called in the order in which they are due: whatever was to be looked at by then has been."""
    looked = asyncio.Event()
    asyncio.get_running_loop().call_later(SAVE_SECONDS * 1.5, looked.set)
    await looked.wait()


async def test_the_text_so_far_is_written_whole_once_and_then_what_is_new(scene: Scene) -> None:
    tail, log = scene.tail, scene.log
    scene.begin()
    tail.emit(TextDelta("one "), "1")
    tail.emit(TextDelta("two "), "1")
    assert log.partials == []
    await log.saved(1)
    tail.emit(TextDelta("three "), "1")
    await log.saved(2)
    assert log.partials == [(SavedText(2, "one two "), False), (SavedText(2, "three "), True)]
    log.partial_outcomes[-1](StoreError("it is full"))
    tail.emit(TextDelta("four"), "1")
    await log.saved(3)
    log.partial_outcomes[-1](None)
    assert log.partials[2] == (SavedText(2, "one two three four"), False), "a piece is missing: all of it again"
    tail.emit(TextDelta("."), "1")
    await log.saved(4)
    assert log.partials[3] == (SavedText(2, "."), True)


async def test_a_finished_item_clears_the_text_so_far_and_what_is_left_is_written_whole(scene: Scene) -> None:
    tail, log = scene.tail, scene.log
    scene.begin()
    tail.emit(ReasoningDelta("thought"), "1")
    tail.emit(TextDelta("hel"), "1")
    await log.saved(1)
    scene.note("a")
    tail.append(Noticed("b"), ITEM, turn="1")
    scene.flush()
    tail.append(ITEM, turn="1")
    scene.flush()
    assert [batch.clears_text for batch in log.batches] == [False, False, True, False]
    tail.emit(ReasoningDelta("s"), "1")
    await log.saved(2)
    assert log.partials[1] == (SavedText(6, "", "thoughts"), False)
    tail.append(CommandEnded("c", "", "", 0, 0.0), turn="1")
    scene.flush()
    assert log.batches[-1].clears_text
    tail.emit(TextDelta("x"), "1")
    await log.saved(3)
    assert log.partials[2] == (SavedText(7, "x", "thoughts"), False)
    tail.append(TurnEnded("completed"), turn="1")
    scene.flush()
    assert log.batches[-1].clears_text


async def test_text_that_is_finished_before_it_is_kept_leaves_nothing_to_add_to(scene: Scene) -> None:
    """The item of one text is shown between two looks: what was kept of it must not come before what is kept next."""
    tail, log = scene.tail, scene.log
    scene.begin()
    tail.emit(TextDelta("old"), "1")
    await log.saved(1)
    tail.broadcast.publish_foreign([Entry(3, 2, "1", 1.0, ITEM)])
    tail.emit(TextDelta("new"), "1")
    await log.saved(2)
    assert log.partials[1] == (SavedText(3, "new"), False)


async def test_what_a_process_that_is_gone_may_have_said_is_cleared_by_the_first_item(scene: Scene) -> None:
    scene.tail.load(State(), 1)
    scene.note("a")
    for _ in range(2):
        scene.tail.append(ITEM, turn="1")
        scene.tail.flush()
    assert [batch.clears_text for batch in scene.log.batches] == [False, True, False]


async def test_the_text_so_far_is_written_whole_once_the_store_is_read_anew(scene: Scene) -> None:
    scene.begin()
    scene.tail.emit(TextDelta("half"), "1")
    await scene.log.saved(1)
    scene.tail.load(scene.tail.state, 1)
    scene.note("a")
    scene.log.outcomes[-1](None)
    scene.tail.emit(TextDelta(" of it"), "1")
    await scene.log.saved(2)
    assert scene.log.partials[1] == (SavedText(3, "half of it"), False)


async def test_no_text_is_kept_while_an_entry_is_on_its_way_nor_once_it_is_of_no_use(scene: Scene) -> None:
    tail, log = scene.tail, scene.log
    scene.begin()
    tail.emit(TextDelta("half"), "1")
    scene.note("a")
    await past_the_next_look()
    assert log.partials == [], "the entry may finish what was said"
    log.outcomes[-1](None)
    await log.saved(1)
    assert log.partials == [(SavedText(3, "half"), False)]
    tail.emit(TextDelta("more"), "1")
    tail.append(TurnEnded("completed"), turn="1")
    scene.flush()
    tail.emit(TextDelta("after the turn"), "1")
    await past_the_next_look()
    assert len(log.partials) == 1


async def test_nothing_is_kept_after_it_is_closed_or_has_failed(tmp_path: Path) -> None:
    closed, failed = Scene(tmp_path / "closed"), Scene(tmp_path / "failed")
    for scene in (closed, failed):
        scene.begin("a")
        scene.log.outcomes[-1](None)
        scene.tail.emit(TextDelta("half"), "1")
    closed.tail.close()
    closed.tail.close()
    failed.note("b")
    failed.log.outcomes[-1](StoreError("it is full"))
    failed.tail.emit(TextDelta("of it"), "1")
    await past_the_next_look()
    assert (closed.log.partials, failed.log.partials) == ([], [])
    closed.tail.emit(TextDelta(" of it"), "1")
    await closed.log.saved(1)
    assert closed.log.partials == [(SavedText(3, "half of it"), False)]
    for scene in (closed, failed):
        scene.tail.close()
        scene.log.close()


async def test_text_that_waited_for_a_record_is_saved_once_it_was_shown(scene: Scene) -> None:
    scene.begin("a")
    scene.tail.emit(TextDelta("so far"), "1")
    assert "1 after 3: so far" not in scene.viewer.seen
    scene.log.outcomes[-1](None)
    assert scene.viewer.seen[-1] == "1 after 3: so far"
    await scene.log.saved(1)
    assert scene.log.partials[0][0].text == "so far"


async def test_a_viewer_that_cannot_even_be_told_of_a_failure_is_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Viewer):
        def show(self, live: LiveEntry) -> None:
            raise ZeroDivisionError

        def fail(self, error: AgentError) -> None:
            raise ZeroDivisionError

    told = f"bug in telling a viewer of {scene.tail.conversation_id} of a failure"
    scene.tail.broadcast.followers.insert(0, Broken())
    scene.begin()
    assert caplog.messages[-1] == told
    assert scene.viewer.seen == ["1 Opened", "2 TurnStarted"]
    caplog.clear()
    scene.tail.broadcast.followers.insert(0, Broken())
    scene.tail.broadcast.fail(AgentError("gone"))
    assert (caplog.messages, scene.viewer.seen[-1]) == ([told], "failed: gone")
