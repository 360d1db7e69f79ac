"""Records in, steps out: every item begins once and ends once, whichever way its turn went and whenever somebody began to watch."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from tests.engine.activity.logs import Drawn, Event
from understudy.engine.activity import steps as s
from understudy.engine.activity.fold import Activity
from understudy.engine.log.fold import State
from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Message, Reasoning, SummaryText
from understudy.protocol.records.files import AddFile

SEEDS = range(60)
CALL = FunctionCall("shell", '{"command": ["ls"]}', "c1")
LS = r.CommandStarted("c1", ("ls",), "/w", contained=True)
MAKE = r.CommandStarted("c1", ("make",), "/w", contained=True, session=7)
ASKED = r.CommandApprovalAsked("c1", ("ls",), "/w")
CHANGES: dict[str, AddFile] = {"a": AddFile("x")}


def steps_of(events: Iterable[Event | r.Record], activity: Activity | None = None) -> list[s.Step]:
    """What is told of them, without the records that stand for themselves."""
    activity = activity or Activity()
    found: list[s.Step] = []
    for seq, event in enumerate(events, start=1):
        match event:
            case r.TextDelta() | r.ReasoningDelta() | r.OutputDelta():
                found += activity.delta(event)
            case r.Entry():
                found += activity.entry(event)
            case record:
                found += activity.entry(r.Entry(seq, seq - 1, "1", 0.0, record))
    return [step for step in found if not isinstance(step, s.Told)]


def answered(success: bool, output: str = "out") -> r.ToolAnswered:
    return r.ToolAnswered(FunctionCallOutput("c1", output), success)


def decided(decision: str, source: str = "client") -> r.ApprovalDecided:
    return r.ApprovalDecided("c1", decision, source)  # pyright: ignore[reportArgumentType]


def outline(steps: Iterable[s.Step]) -> list[str]:
    """Each step by its name, with what it is about and how that ended."""
    told: list[str] = []
    for step in steps:
        match step:
            case s.Ended(item=item, how=how):
                told.append(f"{type(item).__name__} {how}")
            case s.Began(item=item) | s.Resumed(item=item) | s.Grew(item=item) | s.LeftRunning(item=item):
                told.append(f"{type(item).__name__} {type(step).__name__.lower()}")
            case _:
                told.append(type(step).__name__)
    return told


# -- one by one


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([CALL, LS, r.CommandEnded("c1", "x", "", 0, 0.1), answered(True)], ["Command began", "Command done"]),
        (
            [CALL, ASKED, decided("approved"), LS, r.CommandEnded("c1", "x", "", 0, 0.1), answered(True)],
            ["Command began", "Asked", "Decided", "Command resumed", "Command done"],
        ),
        ([CALL, ASKED, decided("denied"), answered(False)], ["Command began", "Asked", "Decided", "Command refused"]),
        ([CALL, ASKED, ASKED, answered(False)], ["Command began", "Asked", "Asked", "Command refused"]),
        ([CALL, answered(False)], ["Answered"]),
        ([CALL, LS, r.TurnEnded("interrupted")], ["Command began", "Command cut"]),
        ([CALL, MAKE, answered(True), r.TurnEnded("completed")], ["Command began", "Command leftrunning"]),
        (
            [r.PatchStarted("c1", dict(CHANGES), auto_approved=True), answered(True)],  # no record of its end
            ["Patch began", "Patch unfinished"],
        ),
        ([r.ImageViewed("c1", "/w/p")], ["Image began", "Image done"]),
        (
            [r.BudgetAsked("b", "tokens", 1, 1, 2), r.ApprovalDecided("b", "denied", "client")],
            ["BudgetQuestion began", "Asked", "Decided", "BudgetQuestion done"],
        ),
        ([r.CompactionStarted("full", 1), r.Compacted("summary", 1, 1)], ["Compaction began", "Compaction done"]),
        ([r.CompactionStarted("full", 1), r.TurnEnded("failed")], ["Compaction began", "Compaction cut"]),
        ([r.TextDelta("a"), r.TextDelta("b"), r.TurnEnded("interrupted")], ["Text began", "Text grew", "Text grew", "Text cut"]),
        (
            [r.ReasoningDelta("a"), r.ItemReceived(Reasoning((SummaryText("a"),)))],
            ["Thought began", "Thought grew", "Thought done"],
        ),
        ([r.UserMessage("m", Message("user", (InputText("x"),))), r.RequestSent(("m", "other"))], ["Accepted", "Read"]),
    ],
)  # fmt: skip
def test_what_becomes_of_an_item_is_told_by_its_steps(events: Sequence[Event | r.Record | FunctionCall], told: list[str]) -> None:
    records = [r.ItemReceived(event) if isinstance(event, FunctionCall) else event for event in events]
    assert outline(steps_of(records)) == told


def test_a_command_has_its_output_in_the_order_in_which_it_was_printed() -> None:
    printed = [r.OutputDelta("c1", "stdout", b"1\xc3"), r.OutputDelta("c1", "stderr", b"2"), r.OutputDelta("c1", "stdout", b"\xa9")]
    *_, last = steps_of([LS, *printed, r.CommandEnded("c1", "1é", "2", 0, 0.1)])
    assert isinstance(last, s.Ended)
    assert isinstance(last.item, s.Command)
    assert isinstance(last.record, r.CommandEnded)
    assert last.item.output.last() == "12é"
    assert last.item.output.whole_or_last(last.record) == "12é"
    assert last.item.output.whole(r.CommandEnded("c1", "other", "end", 0, 0.1)) == "otherend", "not all of it was seen"


def test_an_end_whose_beginning_was_missed_is_told_after_that_where_it_is_known_and_marked_where_not() -> None:
    end = r.CommandEnded("c1", "x", "", 0, 0.1)
    assert outline(steps_of([end], Activity(begun=[LS]))) == ["Command began", "Command done"]
    (alone,) = steps_of([end])
    assert isinstance(alone, s.Ended)
    assert alone.item.missed
    session = r.CommandEnded("c1", "x", "", 0, 0.1, started=MAKE)
    assert outline(steps_of([session])) == ["Command began", "Command done"], "its end says how it began"


def test_a_call_that_was_asked_about_before_somebody_watched_is_refused_as_what_it_was() -> None:
    activity = Activity(called=[CALL], questions=[r.PatchApprovalAsked("c1", dict(CHANGES))])
    (refused,) = steps_of([answered(False)], activity)
    assert isinstance(refused, s.Ended)
    assert refused.how == "refused"
    assert isinstance(refused.item, s.Patch)
    assert refused.item.changes == CHANGES
    assert refused.call == CALL


def test_a_command_that_goes_on_keeps_its_item_when_the_model_uses_the_id_of_its_call_again() -> None:
    activity = Activity()
    again = [r.ItemReceived(CALL), LS, r.CommandEnded("c1", "", "", 0, 0.1), answered(True)]
    first = steps_of([r.ItemReceived(CALL), MAKE, answered(True), *again], activity)
    (late,) = steps_of([r.CommandEnded("c1", "late", "", 0, 9.0, started=MAKE)], activity)
    assert outline(first) == ["Command began", "Command leftrunning", "Command began", "Command done"]
    assert isinstance(late, s.Ended)
    assert isinstance(first[0], s.Began)
    assert late.item is first[0].item


def test_whoever_watches_one_turn_sees_what_outlives_it_cut_off() -> None:
    assert outline(steps_of([MAKE, r.TurnEnded("completed")], Activity(one_turn=True))) == ["Command began", "Command cut"]


def test_what_was_taken_back_of_a_message_is_no_part_of_it() -> None:
    begun = [r.TextDelta("old"), r.Noticed("anew", withdraws=True), r.TextDelta("new"), r.TurnEnded("interrupted")]
    *_, last = steps_of(begun)
    assert isinstance(last, s.Ended)
    assert last.text == "new"


def test_a_notice_that_says_again_who_decided_is_marked() -> None:
    activity = Activity()
    records = (ASKED, decided("denied", "rule x"), r.Noticed("approval denied: rule x"), r.Noticed("other"))
    told = [step for seq, record in enumerate(records, 1) for step in activity.entry(r.Entry(seq, 0, "1", 0.0, record))]
    assert [step.repeats for step in told if isinstance(step, s.Told)] == [True, False]
    assert [step.words for step in told if isinstance(step, s.Decided)] == ["approval denied: rule x"]


# -- whatever happens


@pytest.mark.parametrize("seed", SEEDS)
def test_an_item_begins_at_most_once_and_ends_once_and_grows_only_between(seed: int) -> None:
    began: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    items: list[s.Item] = []  # kept, so that no two have the same `id`
    for step in steps_of(Drawn(seed).events):
        match step:
            case s.Began(item=item):
                began[id(item)] += 1
                items.append(item)
            case s.Grew(item=item) | s.LeftRunning(item=item):
                assert began[id(item)] == 1 or isinstance(item, s.Command)
                assert not ended[id(item)]
            case s.Ended(item=item):
                ended[id(item)] += 1
                items.append(item)
                assert item.missed != bool(began[id(item)]) or isinstance(item, s.Command | s.Patch | s.ToolCall)
            case _:
                pass
    assert max(began.values(), default=1) == 1
    assert max(ended.values(), default=1) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_only_commands_that_outlive_their_turn_are_open_after_the_last(seed: int) -> None:
    open_calls: dict[str, s.Item] = {}
    for step in steps_of(Drawn(seed).events):
        match step:
            case s.Began(item=s.Work() as item) | s.Resumed(item=item):
                open_calls[item.call_id] = item
            case s.Ended(item=s.Work() as item):
                open_calls.pop(item.call_id, None)
            case _:
                pass
    left = [item for item in open_calls.values() if not (isinstance(item, s.Command) and item.session is not None)]
    assert left == []


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_comes_in_the_middle_is_told_of_every_end_that_the_others_are(seed: int) -> None:
    events = Drawn(seed).events
    for place in range(1, len(events), 7):
        before, after = events[:place], events[place:]
        state = State()
        for event in before:
            if isinstance(event, r.Entry):
                state.apply(event)
        whole = Activity()
        steps_of(before, whole)
        calls = [call for name, call in state.calls.items() if name not in state.running and name not in state.outcomes]
        sessions = [started for _, started in state.sessions.running.values()]
        late = Activity(begun=[*sessions, *state.running.values()], called=calls, questions=state.questions.values())
        assert _ends(steps_of(after, late)) == _ends(steps_of(after, whole))


def _ends(steps: Sequence[s.Step]) -> list[str]:
    """Of what the model does. That something was cut off with its turn is known to those only who saw it begin."""
    told: list[str] = []
    for step in steps:
        match step:
            case s.Ended(item=s.Work() as item, how="refused"):
                told.append(f"{item.call_id} refused {step.success}")
            case s.Ended(item=s.Work() as item, how=how) if how != "cut":
                told.append(f"{type(item).__name__} {item.call_id} {how} {step.success}")
            case s.Answered(call=call, success=False):  # the same, for those who came after the question was answered
                told.append(f"{call.call_id} refused {step.success}")
            case _:
                pass
    return told
