"""What a fork copies: everything up to the end of a turn, with its numbers, and nothing that belongs to the other one alone."""

import asyncio
from pathlib import Path

import pytest

from tests.store.records import new_id, open_log
from understudy.engine.log.fold import State
from understudy.engine.log.forking import RUNS_THERE, WAITS_THERE, fork, forked
from understudy.engine.steps import Pace
from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import (
    ApprovalDecided,
    CommandEnded,
    CommandStarted,
    Compacted,
    Entry,
    Noticed,
    Opened,
    Overrides,
    Record,
    RequestSent,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UserMessage,
)

NOW = 9.0
OLD, NEW = ConversationId("old"), ConversationId("new")


def turn(number: str, *between: Record) -> list[tuple[str, Record]]:
    message = UserMessage(f"m{number}", Message("user", (InputText(f"text {number}"),)))
    records: list[Record] = [message, TurnStarted(number), RequestSent((f"m{number}",)), *between, TurnEnded("completed", "done")]
    return [(number, record) for record in records]


def log_of(*turns: list[tuple[str, Record]]) -> list[Entry]:
    opened: list[tuple[str, Record]] = [("0", Opened("old", "m", Overrides(cwd="/w"), owner="ann"))]
    records = [*opened, *(each for one in turns for each in one)]
    return [Entry(seq, seq - 1, of_turn, float(seq), record) for seq, (of_turn, record) in enumerate(records, start=1)]


def test_the_default_is_the_end_of_the_last_turn_that_is_over() -> None:
    log = log_of(turn("1"), turn("2"), turn("3")[:-1])
    batch = forked(log, OLD, NEW, owner="ben", now=NOW)
    assert (batch.conversation_id, batch.creates, batch.summary.status) == (NEW, True, "idle")
    assert batch.entries[1:9] == tuple(log[1:9]), "copied as they are"
    assert batch.entries[-1].record == Noticed("forked from conversation old")
    assert [entry.seq for entry in batch.entries] == list(range(1, 11))
    assert batch.entries[0].record == Opened("new", "m", Overrides(cwd="/w"), owner="ben"), "it belongs to whoever forked it"


@pytest.mark.parametrize(("message_id", "of_turn"), [("m1", None), (None, "1")])
def test_it_may_end_with_an_earlier_turn(message_id: str | None, of_turn: str | None) -> None:
    batch = forked(log_of(turn("1"), turn("2")), OLD, NEW, message_id, of_turn, owner="ben", now=NOW)
    assert list(State.read(batch.entries).message_ends) == ["m1"]


@pytest.mark.parametrize(("message_id", "of_turn"), [("m2", None), ("other", None), (None, "2"), (None, "7")])
def test_a_turn_that_runs_or_is_not_there_is_no_end(message_id: str | None, of_turn: str | None) -> None:
    with pytest.raises(BadRequest, match="is over"):
        forked(log_of(turn("1"), turn("2")[:-1]), OLD, NEW, message_id, of_turn, owner="ben", now=NOW)


def test_one_in_which_nothing_was_said_gives_its_settings() -> None:
    batch = forked(log_of(turn("1")[:-1]), OLD, NEW, owner="ben", now=NOW)
    assert [type(entry.record) for entry in batch.entries] == [Opened, Noticed]


def test_a_path_that_was_left_is_not_the_new_ones_history_and_numbers_keep_their_meaning() -> None:
    log = log_of(turn("1"), turn("2"), turn("3", Compacted("summary", 9, 1, "SUM", "note", kept=(2,))))
    back = [log[0], *log[1:9], *[Entry(e.seq, 5 if e.seq == 10 else e.parent, e.turn, e.at, e.record) for e in log[9:]]]
    state, copy = State.read(back), State.read(forked(back, OLD, NEW, owner="ben", now=NOW).entries)
    assert copy.items == state.items
    assert copy.history.summary == "SUM"
    assert "text 2" not in str(copy.items)


def test_approvals_for_the_session_and_running_commands_stay_with_the_other() -> None:
    decided = ApprovalDecided("c", "approved_for_session", "client", key="k")
    started = CommandStarted("s", ("bash", "-c", "sleep 9"), "/w", contained=True, session=1)
    log = log_of(turn("1", decided, started))
    assert (State.read(log).approved, list(State.read(log).sessions.running)) == ({"k"}, [1])
    batch = forked(log, OLD, NEW, owner="ben", now=NOW)
    copy = State.read(batch.entries)
    assert (copy.approved, copy.sessions.running) == (set(), {})
    ended = batch.entries[-1].record
    assert isinstance(ended, CommandEnded)
    assert (ended.call_id, ended.started, ended.ended_by) == ("s", started, RUNS_THERE)


def test_a_queued_message_waits_in_the_other_only() -> None:
    """It would be run twice, and by whoever made the fork, with what the one who queued it may choose."""
    queued = UserMessage("q", Message("user", (InputText("later"),)), Overrides(sandbox="danger-full-access"))
    log = log_of(turn("1", TurnQueued(queued)))
    assert list(State.read(log).queued) == ["q"]
    batch = forked(log, OLD, NEW, owner="ben", now=NOW)
    assert State.read(batch.entries).queued == {}
    assert batch.entries[-1].record == TurnDropped("q", WAITS_THERE)


async def test_what_was_deleted_meanwhile_is_not_there_to_be_forked(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    try:
        with pytest.raises(UnknownConversation):
            await fork(new_id(), log, log, None, None, owner="local", pace=Pace(asyncio.get_running_loop()))
        assert (await log.list(1)).rows == ()
    finally:
        log.close()
