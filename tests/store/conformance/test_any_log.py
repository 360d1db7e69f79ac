"""What every log promises: claims, fencing, letters, the text so far, lists, deletion, digests and hints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.store.conformance.stores import SharedStore
from tests.store.conformance.writing import claim_of, let_go, place_of, written
from tests.store.records import append, new_id, noticed, opened, user_message
from understudy.errors import BadRequest, Fenced, StoreError, UnknownConversation
from understudy.protocol.ops import Decide, Interrupt, Send
from understudy.protocol.records import Entry, Opened, Overrides
from understudy.store.log import Batch, Committed, Holder, Position, SavedText, Summary
from understudy.testing.waiting import WAIT_SECONDS, Watched

SUMMARY = Summary("a title", "idle", 0, "/w", "m")


# -- records


async def test_what_was_appended_is_read_by_all_from_any_number_on(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    assert await log.read(name) == []
    await append(log, opened(name))
    await append(log, noticed(name, 1, 2, count=3))
    for reader in (log, other):
        assert [entry.seq for entry in await reader.read(name)] == [1, 2, 3, 4]
        assert [entry.seq for entry in await reader.read(name, 2)] == [3, 4]
        assert [entry.seq for entry in await reader.read(name, 1, 2)] == [2, 3]
        assert list(await reader.read(name, 4)) == list(await reader.read(name, 9)) == []
        assert await place_of(reader, name) == (1, 4, False)
    assert await place_of(log, new_id()) is None


async def test_an_append_counts_only_from_where_the_conversation_stands(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    await append(log, opened(name))
    claim = await claim_of(other, name)
    await append(other, noticed(name, 2, 2, claims=True))
    for late in (
        noticed(name, 1, 2),
        noticed(name, 2, 2),
        noticed(name, 2, 4),
        noticed(name, 4, 3, claims=True),
        noticed(name, 1, 3),
    ):
        with pytest.raises(Fenced, match=name):
            await append(log, late)
    with pytest.raises(Fenced):
        await append(log, noticed(new_id(), 1, 2))
    assert await place_of(log, name) == (2, 2, False)
    await append(other, noticed(name, 2, 3))
    await let_go(other, claim)


async def test_a_conversation_is_made_once(store: SharedStore) -> None:
    log = store.open()
    name = new_id()
    await append(log, opened(name))
    with pytest.raises(StoreError):
        await append(log, opened(name))
    assert len(await log.read(name)) == 1


async def test_writes_are_answered_in_their_order(store: SharedStore) -> None:
    log = store.open()
    name, order, watched = new_id(), list[Any](), Watched()

    def note(what: object) -> None:
        order.append(what)
        watched.change()

    log.append(opened(name), lambda error: note((1, error)))
    log.append(noticed(name, 1, 2), lambda error: note((2, error)))
    log.append(noticed(name, 1, 9), lambda error: note((3, type(error))))
    log.append(noticed(name, 1, 3), lambda error: note((4, error)))
    assert order == [], "never from within the call"
    await watched.until(lambda: len(order) == 4 or None, "four answers")
    assert order == [(1, None), (2, None), (3, Fenced), (4, None)]


# -- claims


async def test_a_claim_has_one_holder_and_comes_with_the_position(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    claim = await claim_of(log, name)
    assert (claim.position.epoch, claim.position.last_seq, claim.position.letters) == (0, 0, False)
    assert isinstance(await other.claim(name), Holder)
    assert isinstance(await log.claim(name), Holder), "not twice in one process either"
    assert await other.holder(name) is not None
    assert await log.holder(name) is None, "our own claims are known to their holders"
    await append(log, opened(name))
    await let_go(log, claim)
    await let_go(log, claim)
    assert await other.holder(name) is None
    again = await claim_of(other, name)
    assert (again.position.epoch, again.position.last_seq, again.position.letters) == (1, 1, False)
    await let_go(log, claim)
    assert await log.holder(name) is not None, "what was given back cannot be given back for another"
    assert not again.lost.is_set()


async def test_the_position_of_a_claim_is_true_whatever_was_known(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    claim = await claim_of(log, name)
    await append(log, opened(name))
    await let_go(log, claim)
    for turn in range(2, 5):
        known = Position(turn - 1, turn - 1, as_of=claim.position.as_of)
        claim = await claim_of(log, name, known)  # nobody else has written
        assert (claim.position.epoch, claim.position.last_seq) == (turn - 1, turn - 1)
        await append(log, noticed(name, turn, turn, claims=True))
        await let_go(log, claim)
    known = Position(4, 4, as_of=claim.position.as_of)
    foreign = await claim_of(other, name)
    await append(other, noticed(name, 5, 5, claims=True))
    other.post(name, Interrupt("1"))
    await append(other, noticed(name, 5, 6))
    await let_go(other, foreign)
    claim = await claim_of(log, name, known)
    assert (claim.position.epoch, claim.position.last_seq, claim.position.letters) == (5, 6, True)


async def test_the_last_append_gives_the_claim_back(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    await append(log, opened(name))
    claim = await claim_of(log, name)
    assert await other.holder(name) is not None
    last = noticed(name, 2, 2, claims=True)
    await append(log, msgspec.structs.replace(last, releases=True))
    assert await other.holder(name) is None, "whoever was told that it is written, and asks, is not refused"
    taken = await claim_of(other, name)
    assert (taken.position.epoch, taken.position.last_seq) == (2, 2)
    await let_go(log, claim)
    assert await log.holder(name) is not None, "what went back with the append cannot be given back for another"


async def test_a_claim_that_is_asked_for_while_it_goes_back_is_had_again(store: SharedStore) -> None:
    log = store.open()
    name = new_id()
    await append(log, opened(name))
    await claim_of(log, name)
    log.append(msgspec.structs.replace(noticed(name, 2, 2, claims=True), releases=True), lambda _: None)
    if log.is_remote:
        again = await claim_of(log, name)
        assert (again.position.epoch, again.position.last_seq) == (2, 2), "it is asked after the append"


async def test_the_end_of_a_process_frees_its_claims(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    names = [new_id() for _ in range(3)]
    for name in names:
        await claim_of(log, name)
        assert isinstance(await other.claim(name), Holder)
    log.close()
    for name in names:
        await claim_of(other, name)


async def test_a_claim_that_is_lost_says_so_and_only_that_one(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name, kept = new_id(), new_id()
    claim, mine = await claim_of(log, name), await claim_of(log, kept)
    called: list[str] = []
    claim.on_lost = lambda: called.append("lost")
    mine.on_lost = lambda: called.append("kept")
    taken = await store.take_from(log, other, name)
    async with asyncio.timeout(WAIT_SECONDS):
        await claim.lost.wait()
    assert called == ["lost"]
    assert not mine.lost.is_set()
    assert not taken.lost.is_set()
    await let_go(log, claim)
    assert await log.holder(name) is not None, "a lost claim cannot be given back for its new holder"
    assert isinstance(await other.claim(kept), Holder)


# -- letters and the text so far


async def test_letters_are_read_in_order_until_they_are_taken(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    await append(log, opened(name))
    claim = await claim_of(log, name)
    assert list(await log.letters(name)) == []
    ops = [
        Send(user_message("one")),
        Interrupt("1"),
        Decide("c", "denied", "s", "1"),
        Send(user_message("two")),
    ]
    for op in ops:
        assert await written(lambda done, op=op: other.post(name, op, done)) is None
    assert [letter.op for letter in await log.letters(name)] == ops
    numbers = [letter.number for letter in await log.letters(name)]
    assert numbers == sorted(set(numbers))
    assert (await other.positions([name]))[name].letters
    await append(log, noticed(name, 2, 2, claims=True, taken=numbers[1]))
    assert [letter.op for letter in await log.letters(name)] == ops[2:]
    assert await written(lambda done: log.post(name, ops[1], done)) is None
    assert [letter.op for letter in await log.letters(name)] == [*ops[2:], ops[1]], "also one's own"
    last = (await log.letters(name))[-1].number
    await append(log, noticed(name, 2, 3, taken=last))
    assert list(await other.letters(name)) == []
    await let_go(log, claim)


async def test_a_letter_to_nobody_is_refused(store: SharedStore) -> None:
    log = store.open()
    assert isinstance(await written(lambda done: log.post(new_id(), Interrupt(), done)), UnknownConversation)


async def test_a_letter_that_comes_with_a_fenced_append_stays(store: SharedStore) -> None:
    log = store.open()
    name = new_id()
    await append(log, opened(name))
    assert await written(lambda done: log.post(name, Interrupt("1"), done)) is None
    number = (await log.letters(name))[0].number
    with pytest.raises(Fenced):
        await append(log, noticed(name, 1, 7, taken=number))
    assert len(await log.letters(name)) == 1


async def test_the_text_so_far_is_added_to_replaced_and_cleared(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    await append(log, opened(name))
    assert await other.saved_text(name) is None
    printed = (("c1", "stdout", b"one"),)
    assert await written(lambda done: log.save_text(name, 1, SavedText(1, "half ", outputs=printed), done)) is None
    assert await written(lambda done: log.save_text(name, 1, SavedText(1, "of it", "thought"), done, adds=True)) is None
    assert await other.saved_text(name) == SavedText(1, "half of it", "thought", "", printed)
    assert await written(lambda done: log.save_text(name, 1, SavedText(1, "anew"), done)) is None
    assert await other.saved_text(name) == SavedText(1, "anew")
    batch = noticed(name, 2, 2, claims=True)
    await claim_of(other, name)
    await append(other, Batch(name, 2, 1, batch.entries, SUMMARY, claims=True, clears_text=True))
    assert await log.saved_text(name) is None
    assert await written(lambda done: log.save_text(name, 1, SavedText(1, "late"), done)) is None
    assert await log.saved_text(name) is None, "of one who was overtaken nothing is kept"


# -- lists


async def test_lists_are_in_the_order_of_activity_and_in_pages(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    names = [new_id() for _ in range(7)]
    for number, name in enumerate(names):
        await append(log, opened(name, at=float(number)))
    await append(log, noticed(names[0], 1, 2, at=100.0))
    expected = [names[0], *reversed(names[1:])]
    for limit in (1, 2, 3, 7, 50):
        found: list[str] = []
        cursor = None
        while True:
            page = await other.list(limit, cursor)
            found += [row.conversation_id for row in page.rows]
            assert len(page.rows) <= limit
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == expected
    assert (await log.list(0)).rows == ()
    with pytest.raises(BadRequest, match="invalid cursor"):
        await log.list(3, "nonsense")


async def test_what_is_archived_is_in_a_list_of_its_own(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name, shown = new_id(), new_id()
    await append(log, opened(name))
    await append(log, opened(shown))
    assert await written(lambda done: log.archive(name, True, done)) is None
    assert [row.conversation_id for row in (await other.list(9)).rows] == [shown]
    assert [(row.conversation_id, row.archived) for row in (await other.list(9, archived=True)).rows] == [(name, True)]
    assert await written(lambda done: log.archive(name, False, done)) is None
    assert (await other.list(9, archived=True)).rows == ()
    assert isinstance(await written(lambda done: log.archive(new_id(), True, done)), UnknownConversation)


async def test_a_row_tells_times_summary_and_owner(store: SharedStore) -> None:
    log = store.open()
    name = new_id()
    entry = Entry(1, 0, "0", 5.0, Opened(name, "m", Overrides(), owner="alice"))
    await append(log, Batch(name, 1, 0, (entry,), SUMMARY, creates=True))
    await append(log, noticed(name, 1, 2, at=7.0))
    await append(log, noticed(name, 1, 3, at=6.0))
    found = await log.find(name)
    assert found is not None
    assert (found.created_at, found.updated_at, found.summary, found.owner) == (5.0, 7.0, SUMMARY, "alice")
    assert (await log.list(1)).rows == (found,)
    assert await log.find(new_id()) is None


async def test_a_deleted_conversation_leaves_nothing(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name, kept = new_id(), new_id()
    await append(log, opened(name))
    await append(log, opened(kept))
    log.save_text(name, 1, SavedText(1, "half"))
    log.post(name, Interrupt())
    assert await written(lambda done: log.delete(name, done)) is None
    for one in (log, other):
        assert (await place_of(one, name), list(await one.read(name)), await one.saved_text(name)) == (None, [], None)
        assert (list(await one.letters(name)), await one.find(name)) == ([], None)
        assert [row.conversation_id for row in (await one.list(9)).rows] == [kept]
    with pytest.raises(Fenced):
        await append(other, noticed(name, 1, 2))
    claim = await claim_of(log, name)
    assert claim.position.epoch == 0
    await append(log, opened(name))


# -- digests


async def test_equal_records_have_equal_digests_and_others_do_not(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    one = new_id()
    digests: list[bytes] = []
    await append(log, opened(one))
    for number in range(2, 6):
        claim = await claim_of((log, other)[number % 2], one)
        await append((log, other)[number % 2], noticed(one, number, number, claims=True))
        await let_go((log, other)[number % 2], claim)
        found = await log.find(one)
        assert found is not None
        assert found == await other.find(one)
        digests.append(found.digest)
    assert len({*digests}) == 4
    assert {len(digest) for digest in digests} == {32}
    assert await written(lambda done: log.delete(one, done)) is None
    await append(log, opened(one))
    await append(other, noticed(one, 1, 2, count=4))
    again = await log.find(one)
    assert again is not None
    assert again.digest == digests[-1], "they cover what was written, not by whom or in how many steps"


# -- hints


async def test_whoever_listens_is_told_of_what_others_do(store: SharedStore) -> None:
    log, other = store.open(), store.open()
    name = new_id()
    await append(log, opened(name))
    told, watched = [0], Watched()

    def tell() -> None:
        told[0] += 1
        watched.change()

    stop = log.listen(name, tell)
    assert told == [0], "never from within the call"

    async def hinted() -> None:
        await watched.until(lambda: told[0] or None, "a hint")

    acts: list[Callable[[Committed], None]] = [
        lambda done: other.post(name, Interrupt(), done),
        lambda done: other.append(noticed(name, 1, 2), done),
        lambda done: other.save_text(name, 1, SavedText(2, "half"), done),
    ]
    for act in acts:
        told[0] = 0
        assert await written(act) is None
        await hinted()
    claim = await claim_of(other, name)
    assert isinstance(await log.claim(name), Holder)
    told[0] = 0
    await let_go(other, claim)
    await hinted()
    claim = await claim_of(other, name)
    assert await log.holder(name) is not None
    told[0] = 0
    other.close()
    await hinted()
    stop()
    told[0] = 0
    third = store.open()
    assert await written(lambda done: third.post(name, Interrupt(), done)) is None
    await log.list(1)
    assert told == [0]


# -- many


async def test_many_conversations_written_at_once_keep_apart(store: SharedStore) -> None:
    logs = [store.open() for _ in range(3)]
    names = [new_id() for _ in range(60)]

    async def play(number: int) -> None:
        log, name = logs[number % 3], names[number]
        claim = await claim_of(log, name)
        await append(log, opened(name))
        await asyncio.gather(*(append(log, noticed(name, 1, seq)) for seq in range(2, 8)))
        await let_go(log, claim)

    await asyncio.gather(*(play(number) for number in range(len(names))))
    positions = await logs[0].positions(names)
    assert {(one.epoch, one.last_seq) for one in positions.values()} == {(1, 7)}
    assert len(positions) == 60
    digests = [row.digest for row in (await logs[1].list(100)).rows]
    assert len({*digests}) == 60
