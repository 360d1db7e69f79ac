"""What was said of unfinished items: kept as one piece for each, until the item is finished."""

from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.engine.log.unfinished_text import TextSoFar
from understudy.protocol.items import Message, OutputText, Reasoning, SummaryText
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    ItemReceived,
    Noticed,
    OutputDelta,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
)
from understudy.store.log import SavedText

_deltas = st.one_of(
    st.text(max_size=5).map(TextDelta),
    st.tuples(st.text(max_size=5), st.booleans()).map(lambda pair: ReasoningDelta(*pair)),
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["stdout", "stderr"]), st.binary(max_size=5)).map(
        lambda three: OutputDelta(*three)  # pyright: ignore[reportArgumentType]
    ),
)


@given(st.lists(_deltas, max_size=20))
@settings(max_examples=200)
def test_what_was_said_is_given_back_as_one_delta_for_each_item(deltas: list[TextDelta | ReasoningDelta | OutputDelta]) -> None:
    said = TextSoFar()
    for delta in deltas:
        said.add(delta)
    again = TextSoFar()
    for delta in said.deltas():
        again.add(delta)
    assert again.all_to_save(7) == said.all_to_save(7)
    assert said.text() == "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    known = TextSoFar()
    known.add(TextDelta(said.text()[:2]))
    beyond = "".join(delta.text for delta in known.beyond(said.all_to_save(1)) if isinstance(delta, TextDelta))
    assert said.text()[:2] + beyond == said.text()


def test_a_finished_item_ends_what_was_said_of_it_and_nothing_else() -> None:
    said = TextSoFar()
    for delta in (
        TextDelta("text"),
        ReasoningDelta("thought"),
        ReasoningDelta("raw", raw=True),
        OutputDelta("a", "stdout", b"1"),
        OutputDelta("ab", "stdout", b"2"),
    ):
        said.add(delta)
    said.finish(ItemReceived(Message("assistant", (OutputText("text"),))))
    assert said.all_to_save(0) == SavedText(0, "", "thought", "raw", (("a", "stdout", b"1"), ("ab", "stdout", b"2")))
    said.finish(CommandEnded("a", "", "", 0, 0.0))
    said.finish(CommandStarted("c", ("x",), "/", contained=True))
    assert said.all_to_save(0).outputs == (("ab", "stdout", b"2"),)
    said.finish(ItemReceived(Reasoning((SummaryText("thought"),))))
    said.finish(Noticed("a word"))
    assert said.all_to_save(0) == SavedText(0, outputs=(("ab", "stdout", b"2"),))
    said.finish(TurnEnded("failed"))
    assert not said


def test_only_what_was_said_of_an_item_counts_as_finished_with_it() -> None:
    said = TextSoFar()
    assert said.finish(TurnEnded("failed")) is False
    said.add(TextDelta("text"))
    assert said.finish(ItemReceived(Reasoning((SummaryText("thought"),)))) is False
    said.add(OutputDelta("a", "stdout", b"1"))
    assert said.finish(CommandEnded("b", "", "", 0, 0.0)) is False
    assert said.finish(ItemReceived(Message("assistant", (OutputText("text"),)))) is True
    assert said.finish(CommandEnded("a", "", "", 0, 0.0)) is True


def test_a_record_that_finishes_nothing_of_much_that_was_said_counts_for_nothing() -> None:
    said = TextSoFar()
    for call_id in ("a", "b"):
        said.add(OutputDelta(call_id, "stdout", b"printed"))
    for delta in (None, TextDelta("text"), ReasoningDelta("thought"), ReasoningDelta("raw", raw=True)):
        if delta is not None:
            said.add(delta)
        assert said.finish(CommandEnded("c", "", "", 0, 0.0)) is False
    assert said.finish(CommandEnded("a", "", "", 0, 0.0)) is True


def test_what_another_process_saved_beyond_what_is_known_is_told_by_its_kind() -> None:
    said = TextSoFar()
    for delta in (TextDelta("te"), ReasoningDelta("th"), ReasoningDelta("r", raw=True)):
        said.add(delta)
    saved = SavedText(0, "text", "thought", "raw")
    assert said.beyond(saved) == [ReasoningDelta("ought"), ReasoningDelta("aw", raw=True), TextDelta("xt")]
    assert said.beyond(SavedText(0, "te", "th", "r")) == []


def test_of_a_running_command_the_last_16_kib_are_saved() -> None:
    said = TextSoFar()
    said.add(OutputDelta("a", "stdout", b"x" + b"y" * 16 * 1024))
    assert said.all_to_save(0).outputs == (("a", "stdout", b"y" * 16 * 1024),)
    assert said.new_to_save(0).outputs == (("a", "stdout", b"y" * 16 * 1024),)
    assert said.new_to_save(0).outputs == ()
    said.add(OutputDelta("a", "stdout", b"z"))
    assert said.new_to_save(0).outputs == (("a", "stdout", b"y" * (16 * 1024 - 1) + b"z"),)
