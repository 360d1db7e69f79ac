"""The state is a fold: appending live and reading back after a crash come to the same."""

from itertools import pairwise
from typing import Any, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.logs import Story
from understudy.engine.log.facts import NO_TITLE, merge, path_to, title_from
from understudy.engine.log.fold import State
from understudy.protocol.items import InputImage, InputText, Message, OutputText
from understudy.protocol.records import Entry, Noticed, Overrides, Record, TurnEnded, TurnStarted


def contents(state: State) -> dict[str, Any]:
    return {**msgspec.structs.asdict(state), "history": vars(state.history)}


def test_every_kind_of_record_has_its_place_in_the_fold() -> None:
    assert set(State.APPLIED_BY) == set(get_args(Record))


@given(st.integers(), st.integers(0, 12))
@settings(max_examples=200)
def test_what_was_appended_and_what_is_read_back_are_the_same(seed: int, turns: int) -> None:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
        assert contents(State.read(story.entries)) == contents(story.state)


@given(st.integers(), st.integers(1, 10))
@settings(max_examples=100)
def test_a_path_goes_from_the_first_record_along_the_parents(seed: int, turns: int) -> None:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
    for head in (None, *(entry.seq for entry in story.entries)):
        path = path_to(story.entries, head)
        assert path[0].seq == 1
        assert path[-1].seq == (story.entries[-1].seq if head is None else head)
        for before, after in pairwise(path):
            assert after.parent == before.seq
            assert after.seq > before.seq


@given(st.integers(), st.integers(1, 10))
@settings(max_examples=100)
def test_submission_numbers_are_given_once_though_there_are_forks(seed: int, turns: int) -> None:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
    begun = [entry.record.turn_id for entry in story.entries if isinstance(entry.record, TurnStarted)]
    assert len(set(begun)) == len(begun) == turns


def test_a_fork_leaves_out_what_came_after_and_can_be_left_again() -> None:
    story = Story(5, chances=False)
    for _ in range(3):
        story.turn()
    ends = dict(story.state.message_ends)
    forked = story.state.fork(story.entries, ends["m0"])
    texts = [item.text() for item in forked.items if isinstance(item, Message) and item.role == "user"]
    assert texts == ["text of m0"]
    assert forked.head == ends["m0"]
    assert forked.last_seq == story.entries[-1].seq
    assert forked.message_ends == ends, "a message on another path can still be gone on from"


def test_the_title_is_the_first_text_on_one_line() -> None:
    assert title_from(Message("user", (InputText("  fix\n the\tparser "),))) == "fix the parser"
    assert title_from(Message("user", (InputImage("data:x"), InputText("  "), InputText("see")))) == "see"
    assert title_from(Message("user", (InputImage("data:x"),))) == ""
    long = title_from(Message("user", (InputText("word " * 40),)))
    assert len(long) <= 80
    assert long.endswith("…")
    assert State().summary().title == NO_TITLE


@given(st.text())
def test_a_title_is_never_long_and_never_more_than_one_line(text: str) -> None:
    title = title_from(Message("user", (InputText(text),)))
    assert len(title) <= 80
    assert len(title.splitlines()) <= 1


def test_later_choices_go_over_earlier_ones_and_config_key_by_key() -> None:
    before = Overrides(model="a", cwd="/w", config={"x": 1, "y": 2})
    assert merge(before, Overrides(model="b", config={"y": 3})) == Overrides(model="b", cwd="/w", config={"x": 1, "y": 3})
    assert merge(before, Overrides()) == before
    assert merge(Overrides(), Overrides()) == Overrides()


def test_an_interrupted_answer_stays_in_the_history() -> None:
    state = State()
    state.apply(Entry(1, 0, "1", 0.0, TurnEnded("interrupted", "Turn interrupted", "half an ans")))
    assert state.items == [Message("assistant", (OutputText("half an ans"),))]


def test_an_empty_log_has_an_empty_path() -> None:
    assert path_to([]) == []
    assert contents(State.read([])) == contents(State())
    assert path_to([Entry(1, 0, "1", 0.0, Noticed("x"))])[0].seq == 1


@given(st.integers(), st.integers(1, 8))
@settings(max_examples=100)
def test_a_fork_never_begins_inside_a_turn(seed: int, turns: int) -> None:
    """Also not from a message that came while a turn ran and was never read."""
    story = Story(seed, killed=False)
    for _ in range(turns):
        story.turn()
    for end in story.state.message_ends.values():
        assert story.state.fork(story.entries, end).turn is None
