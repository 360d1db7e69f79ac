"""Commands that outlive their turns, as the fold has them: across turns, forks and compactions, and after a crash."""

from understudy.engine.compaction.plan import note_of
from understudy.engine.log.facts import MOST_UNTOLD
from understudy.engine.log.fold import State
from understudy.engine.log.recovery import OUTCOME_UNKNOWN, lost_sessions
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Message
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    Entry,
    ItemReceived,
    Record,
    RequestSent,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
)


def begun(number: int, call_id: str = "c") -> CommandStarted:
    return CommandStarted(call_id, ("bash", "-lc", f"serve {number}"), "/w", contained=True, session=number)


def folded(*records: Record) -> State:
    return State.of([Entry(seq, seq - 1, "1", float(seq), record) for seq, record in enumerate(records, 1)])


def started(number: int) -> tuple[Record, ...]:
    call_id = f"c{number}"
    call = ItemReceived(FunctionCall("exec_command", "{}", call_id))
    return (call, begun(number, call_id), ToolAnswered(FunctionCallOutput(call_id, "running")))


def test_one_that_was_answered_for_outlives_its_turn_and_ends_with_its_own_record() -> None:
    before = (TurnStarted("1"), *started(1001), TurnEnded("completed", "x"))
    state = folded(*before)
    assert (list(state.sessions.running), state.running, state.sessions.last) == ([1001], {}, 1001)
    assert [command.command for command in state.summary().running] == ["serve 1001"]
    ended = folded(*before, CommandEnded("c1001", "out", "", 0, 1.0, started=begun(1001), untold=True))
    assert (ended.sessions.running, ended.outcomes, list(ended.sessions.untold), ended.summary().running) == ({}, {}, [1001], ())


def test_those_that_died_with_their_process_are_closed_as_unknown_and_told_with_the_next_request() -> None:
    records = (TurnStarted("1"), *started(1001), *started(1002), TurnEnded("completed", "x"))
    [(turn, lost)] = lost_sessions(folded(*records), {1002})
    assert (turn, lost.exit_code, lost.ended_by) == ("1", -1, OUTCOME_UNKNOWN)
    state = folded(*records, lost, TurnStarted("2"), RequestSent())
    assert list(state.sessions.running) == [1002]
    told = state.history.items[-1]
    assert isinstance(told, Message)
    assert told.text().startswith("Session 1001 (`serve 1001`) does not run any more: ")
    assert len(folded(*records, lost, TurnStarted("2"), RequestSent(), RequestSent()).history.items) == len(state.history.items)


def test_one_whose_call_is_open_is_closed_with_its_turn() -> None:
    state = folded(TurnStarted("1"), ItemReceived(FunctionCall("exec_command", "{}", "c")), begun(1001))
    assert lost_sessions(state, ()) == []
    assert list(state.running) == ["c"]


def test_a_compaction_keeps_what_runs() -> None:
    state = folded(TurnStarted("1"), *started(1001))
    assert "Commands that are still running:\n- bash -lc serve 1001 (session 1001)" in note_of(state, "heading")


def test_a_fork_to_before_it_began_does_not_forget_it() -> None:
    entries = [Entry(seq, seq - 1, "1", float(seq), each) for seq, each in enumerate((TurnStarted("1"), *started(1001)), 1)]
    state = State.of(entries)
    forked = state.fork(entries, 1)
    assert (list(forked.sessions.running), forked.sessions.last) == ([1001], 1001)


def test_ends_that_nobody_asks_for_are_forgotten_in_the_end() -> None:
    ends = [CommandEnded("c", "", "", 0, 1.0, started=begun(number), untold=True) for number in range(1001, 1101)]
    assert list(folded(*ends).sessions.untold) == list(range(1101 - MOST_UNTOLD, 1101))
