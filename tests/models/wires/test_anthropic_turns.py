"""Histories as turns of the Messages API: whatever is in the log, the provider's rules hold."""

from hypothesis import given
from hypothesis import strategies as st

from understudy.models.wires.anthropic import turns_of
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Item, Message, OutputText, Reasoning

call_ids = st.sampled_from(["a", "b", "c:1", ""])
answers = st.sampled_from([None, "answer:1", "answer:2", "fc_1"])
items: st.SearchStrategy[Item] = st.one_of(
    st.sampled_from([Message("user", (InputText(text),)) for text in ("", "hi")]),
    st.just(Message("developer", (InputText("rule"),))),
    st.builds(Message, st.just("assistant"), st.just((OutputText("said"),)), answers),
    st.builds(Reasoning, id=answers, signature=st.sampled_from([None, "", "sig"])),
    st.builds(FunctionCall, st.just("shell"), st.just("{}"), call_ids, answers),
    st.builds(FunctionCallOutput, call_ids, st.just("out")),
)


@given(st.lists(items, max_size=14), st.booleans())
def test_turns_alternate_and_every_call_has_its_result_in_the_turn_after_it(history: list[Item], with_thinking: bool) -> None:
    turns = turns_of(history, with_thinking=with_thinking)
    assert [turn.role for turn in turns] == ["user", "assistant"] * (len(turns) // 2) + ["user"]
    used: list[str] = []
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        assert turn.parts
        calls = [part.call for part in turn.parts if isinstance(part.item, FunctionCall)]
        used += calls
        if turn.role == "assistant":
            assert after is not None
            assert not all(isinstance(part.item, Reasoning) for part in turn.parts)
            results = [part.call for part in after.parts if part.call]
            assert sorted(results) == sorted(calls)
            assert all(part.call for part in after.parts[: len(results)]), "results come first"
    assert len(used) == len(set(used))
    kept = [part.item for turn in turns for part in turn.parts if part.item is not None and not isinstance(part.item, Reasoning)]
    assert sorted(map(repr, kept)) == sorted(repr(item) for item in history if not isinstance(item, Reasoning))


@given(st.lists(items, max_size=10), st.lists(items, max_size=4))
def test_whole_turns_stay_as_they_are_when_the_history_grows(history: list[Item], more: list[Item]) -> None:
    """The provider keeps the beginning of a request in its cache."""
    closed: list[Item] = [*history, Message("user", (InputText("next"),))]
    before = turns_of(closed)
    after = turns_of([*closed, *more])
    assert after[: len(before) - 1] == before[:-1]
    last = before[-1].parts
    assert after[len(before) - 1].parts[: len(last)] == last
