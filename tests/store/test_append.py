"""Appending: in order, with an epoch, together where they wait together, and nothing of a batch that may not be written."""

import asyncio
from pathlib import Path

import pytest

from tests.store.records import SUMMARY, append, new_id, noticed, open_log, opened, position_of, records_of, user_message
from tests.support.answered import answered
from understudy.errors import Fenced, StoreError, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Interrupt, Send
from understudy.protocol.records import Entry, Noticed
from understudy.store.log import Batch, Position, SavedText
from understudy.store.sqlite.writing import AT_ONCE
from understudy.testing.waiting import WAIT_SECONDS


async def test_what_was_appended_is_there_for_every_store_on_the_folder(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    assert position_of(log, name) is None
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2, count=3))
    for reader in (log, other):
        assert position_of(reader, name) == Position(1, 4)
        assert [entry.seq for entry in answered(reader.read(name))] == [1, 2, 3, 4]
        assert [entry.seq for entry in answered(reader.read(name, 2))] == [3, 4]
        assert [entry.seq for entry in answered(reader.read(name, 1, 2))] == [2, 3]
        assert records_of(reader, name)[-1] == Noticed("note 4")
    log.close()
    other.close()


async def test_a_claim_raises_the_epoch_and_the_one_before_can_write_no_more(tmp_path: Path) -> None:
    first, second = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(first, opened(name))
    await append(second, noticed(name, 2, 2, claims=True))
    with pytest.raises(Fenced):
        await append(first, noticed(name, 1, 2))
    with pytest.raises(Fenced):
        await append(first, noticed(name, 1, 3))
    with pytest.raises(Fenced):  # a claim on an epoch that is over
        await append(first, noticed(name, 2, 2, claims=True))
    await append(second, noticed(name, 2, 3))
    assert records_of(first, name)[1:] == [Noticed("note 2"), Noticed("note 3")]
    first.close()
    second.close()


async def test_a_number_is_given_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2))
    with pytest.raises(Fenced):
        await append(log, noticed(name, 1, 2))
    with pytest.raises(Fenced):
        await append(log, noticed(name, 1, 5))
    assert [entry.seq for entry in answered(log.read(name))] == [1, 2]
    log.close()


async def test_a_refused_batch_takes_nothing_with_it_and_no_other_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    good, bad = new_id(), new_id()
    outcomes: list[BaseException | None] = []
    done = asyncio.Event()

    def note(error: BaseException | None) -> None:
        outcomes.append(error)
        if len(outcomes) == 5:
            done.set()

    for batch in (opened(good), opened(bad), noticed(bad, 7, 2, taken=9), opened(good), noticed(good, 1, 2)):
        log.append(batch, note)
    async with asyncio.timeout(WAIT_SECONDS):
        await done.wait()
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), Fenced, StoreError, type(None)]
    assert [entry.seq for entry in answered(log.read(good))] == [1, 2]
    assert [entry.seq for entry in answered(log.read(bad))] == [1]
    log.close()


async def test_outcomes_come_in_the_order_of_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(40)]
    order: list[ConversationId] = []
    done = asyncio.Event()

    def note(name: ConversationId) -> None:
        order.append(name)
        if len(order) == len(names) * 2:
            done.set()

    for name in names:
        log.append(opened(name), lambda _, name=name: note(name))
        log.append(noticed(name, 1, 2), lambda _, name=name: note(name))
    async with asyncio.timeout(WAIT_SECONDS):
        await done.wait()
    assert order == [name for name in names for _ in range(2)]
    log.close()


async def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(100)]
    for name in names:
        log.append(opened(name), lambda _: None)
    assert log.close() is True
    again = open_log(tmp_path)
    assert answered(again.count()) == 100
    again.close()


async def test_letters_wait_in_order_until_the_batch_that_holds_them(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name, stranger = new_id(), new_id()
    await append(log, opened(name))
    await append(log, opened(stranger))
    message = user_message("hello")
    sent = asyncio.get_running_loop().create_future()
    other.post(name, Send(message))
    other.post(stranger, Interrupt())
    other.post(name, Interrupt(), lambda _: sent.set_result(None))
    async with asyncio.timeout(WAIT_SECONDS):
        await sent
    letters = answered(log.letters(name))
    assert [letter.op for letter in letters] == [Send(message), Interrupt()]
    with pytest.raises(Fenced):
        await append(log, noticed(name, 9, 2, taken=letters[-1].number))
    assert len(answered(log.letters(name))) == 2, "a batch that was refused takes no letters"
    await append(log, noticed(name, 1, 2, taken=letters[0].number))
    assert answered(log.letters(name)) == letters[1:]
    assert len(answered(log.letters(stranger))) == 1
    log.close()
    other.close()


async def test_the_text_so_far_is_replaced_and_goes_with_the_item(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    said = SavedText(1, "half of it", "a thought", "", (("c", "stdout", b"\xff\x00out"),))
    log.save_text(name, 1, SavedText(1, "half"))
    log.save_text(name, 1, said)
    await append(log, noticed(name, 1, 2))
    assert answered(other.saved_text(name)) == said
    batch = noticed(name, 1, 3)
    await append(log, type(batch)(batch.conversation_id, 1, 2, batch.entries, batch.summary, clears_text=True))
    assert answered(other.saved_text(name)) is None
    log.close()
    other.close()


async def test_pieces_of_the_text_so_far_are_read_as_one_and_what_commands_print_is_replaced(tmp_path: Path) -> None:
    log, other = open_log(tmp_path), open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    log.save_text(name, 1, SavedText(1, "old", "gone"))
    log.save_text(name, 1, SavedText(1, "half ", "a "))
    log.save_text(name, 1, SavedText(1, "", "thought", "", (("c", "stdout", b"1"),)), adds=True)
    log.save_text(name, 1, SavedText(2, "x" * 100_000, "", "raw", (("c", "stdout", b"12"),)), adds=True)
    await append(log, noticed(name, 1, 2))
    assert answered(other.saved_text(name)) == SavedText(2, "half " + "x" * 100_000, "a thought", "raw", (("c", "stdout", b"12"),))
    log.close()
    other.close()


async def test_a_record_too_large_to_be_written_as_it_is_comes_back_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    large = Entry(2, 1, "1", 2.0, Noticed("words " * 500_000))
    await append(log, Batch(name, 1, 1, (large,), SUMMARY))
    assert answered(log.read(name, 1)) == [large]
    assert answered(log.size()) < 1_000_000
    log.close()


@pytest.mark.parametrize("count", [AT_ONCE - 1, AT_ONCE, 3 * AT_ONCE + 5])
async def test_a_long_batch_is_there_as_a_whole_or_not_at_all(tmp_path: Path, count: int) -> None:
    log = open_log(tmp_path)
    name, other = new_id(), new_id()
    await append(log, opened(name))
    await append(log, opened(other))
    await append(log, noticed(name, 1, 2, count=count))
    assert position_of(log, name) == Position(1, count + 1)
    assert [entry.seq for entry in answered(log.read(name))] == list(range(1, count + 2))
    outcomes: list[BaseException | None] = []
    log.append(noticed(name, 1, 7, count=count), outcomes.append)  # not where the log ends
    await append(log, noticed(other, 1, 2))
    assert [type(outcome) for outcome in outcomes] == [Fenced]
    assert position_of(log, name) == Position(1, count + 1)
    assert position_of(log, other) == Position(1, 2)
    assert answered(log.check()) == "ok"
    log.close()


async def test_the_positions_of_many_are_told_with_the_letters_that_wait(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    names = [new_id() for _ in range(3)]
    for name in names[:2]:
        await append(log, opened(name))
    log.post(names[1], Send(user_message("hello")))
    await append(log, noticed(names[0], 1, 2))
    assert answered(log.positions(names)).keys() == set(names[:2])
    assert position_of(log, names[0]) == Position(1, 2)
    assert position_of(log, names[1]) == Position(1, 1, letters=True)
    assert answered(log.positions([])) == {}
    log.close()


async def test_a_conversation_that_is_deleted_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name, other = new_id(), new_id()
    await append(log, opened(name))
    await append(log, opened(other))
    log.save_text(name, 1, SavedText(1, "half"))
    log.post(name, Interrupt())
    gone = asyncio.get_running_loop().create_future()
    log.delete(name, lambda error: gone.set_result(error))
    async with asyncio.timeout(WAIT_SECONDS):
        assert await gone is None
    assert (
        position_of(log, name),
        list(answered(log.read(name))),
        answered(log.saved_text(name)),
        list(answered(log.letters(name))),
    ) == (None, [], None, [])
    assert position_of(log, other) == Position(1, 1)
    log.close()


async def test_what_comes_after_the_deletion_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    outcomes: list[BaseException | None] = []
    done = asyncio.Event()

    def note(error: BaseException | None) -> None:
        outcomes.append(error)
        if len(outcomes) == 4:
            done.set()

    log.delete(name, note)
    log.post(name, Send(user_message("too late")), note)
    log.save_text(name, 1, SavedText(1, "too late", outputs=(("c", "stdout", b"1"),)), note)
    log.archive(name, True, note)
    async with asyncio.timeout(WAIT_SECONDS):
        await done.wait()
    assert [type(outcome) for outcome in outcomes] == [type(None), UnknownConversation, type(None), UnknownConversation]
    assert (list(answered(log.letters(name))), answered(log.saved_text(name))) == ([], None)
    log.close()


async def test_one_who_was_overtaken_adds_nothing_to_the_text_so_far_and_takes_nothing_from_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    await append(log, opened(name))
    await append(log, noticed(name, 2, 2, claims=True))
    log.save_text(name, 2, SavedText(2, "mine ", outputs=(("c", "stdout", b"1"),)))
    log.save_text(name, 1, SavedText(1, "stray", outputs=(("c", "stdout", b"2"),)))
    log.save_text(name, 1, SavedText(1, "stray", outputs=(("c", "stdout", b"2"),)), adds=True)
    log.save_text(name, 2, SavedText(2, "and on"), adds=True)
    await append(log, noticed(name, 2, 3))
    assert answered(log.saved_text(name)) == SavedText(2, "mine and on", outputs=(("c", "stdout", b"1"),))
    log.close()


async def test_letters_that_are_read_are_those_of_their_own_conversation_up_to_that_number(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    one, other = new_id(), new_id()
    for name in (one, other):
        await append(log, opened(name))
    for text in ("a", "b", "c"):
        for name in (one, other):
            log.post(name, Send(user_message(text)))
    await append(log, noticed(one, 1, 2))
    second = answered(log.letters(one))[1].number
    await append(log, noticed(one, 1, 3, taken=second))

    def texts(name: ConversationId) -> list[str]:
        return [letter.op.message.message.text() for letter in answered(log.letters(name)) if isinstance(letter.op, Send)]

    assert texts(one) == ["c"]
    assert texts(other) == ["a", "b", "c"]
    position = position_of(log, other)
    assert position is not None
    assert position.letters
    log.close()


async def test_what_one_step_of_the_loop_appends_is_one_commit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    commits: list[float] = []
    log.time_commits(commits.append)
    names = [new_id() for _ in range(5)]
    await asyncio.gather(*(append(log, opened(name)) for name in names))
    assert len(commits) == 1
    assert all(position_of(log, name) == Position(1, 1) for name in names)
    log.close()


async def test_what_was_appended_in_the_step_that_closes_the_log_is_written(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    name = new_id()
    log.append(opened(name), lambda _: None)
    assert log.close()
    log = open_log(tmp_path)
    assert position_of(log, name) == Position(1, 1)
    log.close()


async def test_what_comes_after_the_log_was_closed_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    with pytest.raises(StoreError, match="is not written to any more"):
        await append(log, opened(new_id()))
