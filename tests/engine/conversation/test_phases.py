"""The table of a conversation: every phase has an answer to everything that can happen, and no walk through it breaks a rule."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from understudy.engine.conversation.phases import (
    BREAKING,
    DELETING,
    ENDING,
    FAILED,
    FORGOTTEN,
    GONE,
    IDLE,
    LEAVING,
    OURS,
    RUNNING,
    STEPS,
    UNREAD,
    Effect,
    Given,
    Phase,
    Standing,
    kept,
)

_KEPT = " ".join(each.name for each in Given if each.name.startswith("KEPT"))

CANNOT_HAPPEN = {
    UNREAD: f"CLAIMED READ_ANEW STARTED TOLD_TO_END ENDED CLOSED {_KEPT} FORGET",
    IDLE: f"OPENED LOADED READ_ANEW STARTED TOLD_TO_END ENDED {_KEPT}",
    OURS: f"OPENED LOADED CLAIMED READ_ANEW TOLD_TO_END ENDED {_KEPT} DELETED FORGET",
    RUNNING: f"OPENED LOADED CLAIMED RELEASED READ_ANEW STARTED DELETION {_KEPT} DELETED FORGET",
    ENDING: f"OPENED LOADED CLAIMED RELEASED READ_ANEW STARTED {_KEPT} DELETED FORGET",
    BREAKING: f"OPENED LOADED CLAIMED BROKEN READ_ANEW STARTED CLOSED {_KEPT} FORGET",
    FAILED: f"OPENED LOADED BROKEN STARTED TOLD_TO_END ENDED {_KEPT}",
    DELETING: "OPENED LOADED STARTED DELETION FORGET",
    GONE: "OPENED LOADED CLAIMED READ_ANEW STARTED DELETION",
    LEAVING: "STARTED DELETION",
    FORGOTTEN: " ".join(each.name for each in Given if each is not Given.LEAVE),
}
"""The pairs that have no row. A pair that moves from here to there is a change of the theory."""

HAS_TURN = {RUNNING, ENDING, BREAKING}


@pytest.mark.parametrize("phase", Phase)
def test_each_phase_has_a_row_for_everything_that_can_happen(phase: Phase) -> None:
    without = {given.name for given in Given if STEPS[phase][given] is None}
    assert without == set(CANNOT_HAPPEN[phase].split())


def test_a_turn_begins_only_under_the_claim_and_is_told_to_end_only_while_it_runs() -> None:
    for phase in Phase:
        for given in Given:
            step = STEPS[phase][given]
            if step is None:
                continue
            if step.phase is RUNNING and phase is not RUNNING:
                assert (phase, given) == (OURS, Given.STARTED)
            if step.phase is ENDING and phase is not ENDING:
                assert (phase, given) in {(RUNNING, Given.TOLD_TO_END), (DELETING, Given.KEPT_ENDING)}
            if phase in HAS_TURN and step.phase not in {*HAS_TURN, LEAVING, DELETING, GONE}:
                assert given is Given.ENDED, "nothing but its end takes a turn away"


def test_what_is_over_stays_over() -> None:
    after = {phase: {step.phase for step in STEPS[phase] if step is not None} for phase in Phase}
    assert after[FORGOTTEN] == {FORGOTTEN}
    assert after[LEAVING] == {LEAVING, FORGOTTEN}
    assert after[GONE] == {GONE, LEAVING, FORGOTTEN}


def test_a_log_that_cannot_be_written_stops_what_runs_and_tells_who_waits() -> None:
    for phase in Phase:
        step = STEPS[phase][Given.BROKEN]
        if step is not None:
            assert step.effects == (Effect.FAIL_HELD, Effect.STOP, Effect.RELEASE_SOON)
            assert step.phase not in {OURS, RUNNING, ENDING}


def test_a_lost_claim_fails_the_log_wherever_that_has_not_failed() -> None:
    for phase in Phase:
        step = STEPS[phase][Given.LOST]
        if step is not None:
            assert step.effects == (() if phase in {BREAKING, FAILED, GONE} else (Effect.BREAK,))


@drawn(st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_deletion_that_failed_leaves_what_there_is(known: bool, claimed: bool, turn: bool, broken: bool) -> None:
    step = STEPS[DELETING][kept(known=known, claimed=claimed, turn=turn, broken=broken)]
    assert step is not None
    assert (step.phase in {BREAKING, FAILED}) is (known and broken)
    assert (step.phase in HAS_TURN) is (known and turn)
    if not (broken or turn):
        assert step.phase is (UNREAD if not known else OURS if claimed else IDLE)


@drawn(st.data())
def test_on_a_walk_the_phase_says_what_is_in_hand(data: st.DataObject) -> None:
    """Inputs in any order in which a shell can note them; what is in hand is counted beside, and held against the phase."""
    standing = Standing()
    performed: list[Effect] = []
    standing.effects = tuple(lambda effect=effect: performed.append(effect) for effect in Effect)
    known = turn = claim = broken = False
    for _ in range(data.draw(st.integers(0, 40))):
        possible = [given for given in Given if STEPS[standing.phase][given] is not None]
        possible = [given for given in possible if _fits(given, standing.phase, known=known, turn=turn, claim=claim, broken=broken)]
        if not possible:
            break
        given = data.draw(st.sampled_from(possible))
        before = standing.phase
        performed.clear()
        standing.note(given)
        if Effect.BREAK in performed:  # as the shell does
            claim = False
            standing.note(Given.BROKEN)
            broken = True
        match given:
            case Given.OPENED | Given.CLAIMED:
                known, claim, broken = True, True, False
            case Given.LOADED:
                known, broken = True, False
            case Given.RELEASED | Given.LOST:
                claim = False
            case Given.BROKEN:
                broken = True
            case Given.READ_ANEW:
                broken = False
            case Given.STARTED:
                turn = True
            case Given.ENDED:
                turn = False
            case _:
                pass
        _hold(standing.phase, (before, given), known=known, turn=turn, claim=claim, broken=broken)


def _fits(given: Given, phase: Phase, *, known: bool, turn: bool, claim: bool, broken: bool) -> bool:
    """Whether the shell can note it, with this in hand."""
    match given:
        case Given.CLAIMED:
            return not (claim or turn)
        case Given.RELEASED | Given.LOST:
            return claim and not (given is Given.RELEASED and turn)
        case Given.BROKEN:
            return not broken
        case Given.READ_ANEW:
            return broken and not (claim or turn)
        case Given.ENDED | Given.TOLD_TO_END:
            return turn
        case Given.DELETED:
            return not (claim or turn)
        case _ if given.name.startswith("KEPT"):
            return given is kept(known=known, claimed=claim, turn=turn, broken=broken)
        case Given.OPENED | Given.LOADED:
            return not known
        case Given.FORGET:
            return not (claim or turn)
        case _:
            return True


def _hold(phase: Phase, came: object, *, known: bool, turn: bool, claim: bool, broken: bool) -> None:
    if phase in HAS_TURN:
        assert turn, came
    if phase in {IDLE, OURS, FAILED, UNREAD, FORGOTTEN}:
        assert not turn, came
    if phase in {OURS, RUNNING, ENDING}:
        assert claim, came
        assert not broken, came
    if phase is IDLE:
        assert not claim, came
        assert not broken, came
    if phase in {BREAKING, FAILED}:
        assert broken, came
    if phase in {IDLE, OURS, RUNNING, ENDING}:
        assert known, came
    if phase is UNREAD:
        assert not known, came
    if phase is GONE:
        assert not claim, came


def test_what_cannot_happen_is_said_and_changes_nothing(nothing_impossible_happens_to_a_conversation: list[str]) -> None:
    standing = Standing()
    standing.note(Given.STARTED)
    assert standing.phase is UNREAD
    said = nothing_impossible_happens_to_a_conversation
    assert said == ["bug: STARTED cannot happen to a conversation that is UNREAD"]
    said.clear()
