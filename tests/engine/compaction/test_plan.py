"""What a compaction leaves of any history: whole pairs, the first words and the last step, within its allowance."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine.compaction.limits import BYTES_PER_TOKEN, all_tokens, text_tokens, tokens_of
from understudy.engine.compaction.plan import SUMMED_UP, TokenShares, compacted, note_of, plan_remainder, plan_trim
from understudy.engine.log.fold import State
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Message, OutputText
from understudy.protocol.records import (
    Compacted,
    Entry,
    ItemReceived,
    Opened,
    Overrides,
    Record,
    RequestSent,
    ToolAnswered,
    UserMessage,
)

Step = tuple[int, int, tuple[int, ...]]  # characters of a message (0: none), of the answer, of the output of each call
SIZES = st.sampled_from((1, 40, 900, 5_000, 40_000))
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.one_of(st.just(0), SIZES), SIZES, st.lists(SIZES, max_size=3).map(tuple)), min_size=1, max_size=12
)


class Told:
    """A conversation, told step by step."""

    def __init__(self, steps: list[Step]) -> None:
        self.state = State()
        self._add(Opened("c", "m", Overrides()))
        for number, (message, answer, outputs) in enumerate(steps):
            consumed: tuple[str, ...] = ()
            if message or number == 0:
                consumed = (f"m{number}",)
                text = f"message {number} ".ljust(max(message, 20), "u")
                self._add(UserMessage(consumed[0], Message("user", (InputText(text),))))
            self._add(RequestSent(consumed))
            self._add(ItemReceived(Message("assistant", (OutputText("a" * answer),))))
            for index, size in enumerate(outputs):
                call_id = f"call {index}"  # models use their call ids again
                self._add(ItemReceived(FunctionCall("shell", "{}", call_id)))
                self._add(ToolAnswered(FunctionCallOutput(call_id, "o" * size)))

    def _add(self, record: Record) -> None:
        self.state.apply(Entry(self.state.last_seq + 1, self.state.head, "1", 0.0, record))

    def compact(self, shares: TokenShares) -> None:
        kept = plan_remainder(self.state, shares)
        self._add(compacted("summary", self.state, kept, "SUMMARY", note_of(self.state, SUMMED_UP), 1000, 100))

    def trim(self, shares: TokenShares) -> int:
        dropped, saved = plan_trim(self.state, shares)
        self._add(Compacted("trimmed", 1000, 100, shortened=dropped))
        return saved


def pairs_are_whole(state: State) -> bool:
    open_calls: list[str] = []
    for item in state.items:
        if isinstance(item, FunctionCall):
            open_calls.append(item.call_id)
        elif isinstance(item, FunctionCallOutput):
            if item.call_id not in open_calls:
                return False
            open_calls.remove(item.call_id)
    return not open_calls


@given(STEPS, st.integers(2_000, 200_000))
@settings(max_examples=300)
def test_what_stays_is_whole_and_has_the_goal_the_summary_and_the_last_step(steps: list[Step], capacity: int) -> None:
    told = Told(steps)
    last = told.state.items[-1]
    shares = TokenShares.of(capacity, 1000, 1.0)
    told.compact(shares)
    items = told.state.items
    assert pairs_are_whole(told.state)
    words = [item.text() for item in items if isinstance(item, Message) and item.role == "user"]
    assert any(text.startswith("message 0 ") for text in words)
    assert sum(text.endswith("SUMMARY") for text in words) == 1
    if isinstance(last, FunctionCallOutput):
        assert isinstance(items[-1], FunctionCallOutput)
    else:
        assert items[-1] == last


@given(STEPS, st.integers(20_000, 200_000))
@settings(max_examples=300)
def test_it_fits_unless_a_single_answer_is_larger_than_its_part(steps: list[Step], capacity: int) -> None:
    """A step's own messages and answers are never cut, so only they can exceed what is meant for the recent part."""
    told = Told(steps)
    shares = TokenShares.of(capacity, 1000, 1.0)
    last_step = told.state.history.steps[-1]
    uncut = sum(
        tokens_of(item)
        for item, step in zip(told.state.items, told.state.history.steps, strict=True)
        if step == last_step and not isinstance(item, FunctionCallOutput)
    )
    told.compact(shares)
    note = text_tokens(note_of(told.state, SUMMED_UP)) + text_tokens("SUMMARY")
    marks = 40 * len(told.state.items)
    assert all_tokens(told.state.items) <= shares.users + shares.exchange + uncut + note + marks


@given(STEPS)
@settings(max_examples=200)
def test_a_second_compaction_has_one_summary_and_the_same_goal(steps: list[Step]) -> None:
    told = Told(steps)
    shares = TokenShares.of(20_000, 1000, 1.0)
    told.compact(shares)
    told.compact(shares)
    words = [item.text() for item in told.state.items if isinstance(item, Message) and item.role == "user"]
    assert sum(text.endswith("SUMMARY") for text in words) == 1
    assert any(text.startswith("message 0 ") for text in words)
    assert pairs_are_whole(told.state)


@given(STEPS)
@settings(max_examples=200)
def test_dropping_outputs_changes_only_old_outputs_and_saves_what_it_says(steps: list[Step]) -> None:
    told = Told(steps)
    before = list(told.state.items)
    saved = told.trim(TokenShares.of(20_000, 1000, 1.0))
    after = told.state.items
    assert len(after) == len(before)
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert all(isinstance(old, FunctionCallOutput) for old, _ in changed)
    assert abs(all_tokens(before) - all_tokens(after) - saved) <= 20 * len(changed)
    assert pairs_are_whole(told.state)
    assert saved >= 0


def test_what_people_wrote_is_kept_newest_first_and_the_first_always() -> None:
    steps: list[Step] = [(4_000, 10, ()) for _ in range(40)]
    told = Told([*steps, (10, 200_000, ())])
    told.compact(TokenShares.of(40_000, 0, 1.0))
    words = [item.text().split("u")[0].strip() for item in told.state.items if isinstance(item, Message) and item.role == "user"]
    numbers = [int(text.split()[1]) for text in words if text.startswith("message ")]
    assert numbers[0] == 0
    assert numbers[1:] == list(range(numbers[1], 41))
    assert 5 <= len(numbers) <= 8 * BYTES_PER_TOKEN
