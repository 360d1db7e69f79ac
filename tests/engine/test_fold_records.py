"""What records of later kinds mean, value by value: queued turns, commands that outlive their turn, undo, names, forks."""

from __future__ import annotations

from tests.engine.test_fold_values import Log, said, user
from understudy.engine.log.fold import MOST_FILES, State
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Message, Usage
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    PatchEnded,
    PatchStarted,
    PlanStep,
    PlanUpdated,
    Record,
    Renamed,
    RequestSent,
    TokensCounted,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UndoEnded,
    UndoStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile
from understudy.store.log import RunningCommand, Summary


def begun() -> Log:
    log = Log()
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), RequestSent(("m1",)))
    return log


def patch(call_id: str, *files: str, success: bool = True) -> tuple[Record, ...]:
    changes = {name: AddFile("x") for name in files}
    return PatchStarted(call_id, changes, auto_approved=True), PatchEnded(call_id, "", "", success=success)  # pyright: ignore[reportArgumentType]


def test_a_queued_message_waits_until_it_is_recorded_again_or_dropped() -> None:
    log = begun()
    first, second = UserMessage("m2", user("two")), UserMessage("m3", user("three"))
    log.add(TurnQueued(first), TurnQueued(second))
    log.check(queued={"m2": first, "m3": second}, waiting={}, submissions=1, message_count=1)
    log.add(TurnEnded("completed", "x"), first, turn="2")
    log.check(queued={"m3": second}, waiting={"m2": first}, submissions=2)
    log.add(TurnDropped("m3"), TurnDropped("nobody"))
    log.check(queued={})


def test_a_message_is_from_the_record_that_brought_it_and_what_a_model_says_from_its_own() -> None:
    log = begun()
    log.add(UserMessage("m2", user("two")), ItemReceived(said("a")), RequestSent(("m2",)))
    assert log.state.history.sources == [2, 6, 5]
    assert log.state.history.from_users == {2, 5}


def test_a_command_that_outlives_its_turn_runs_until_its_own_end() -> None:
    log = begun()
    started = CommandStarted("c1", ("bash", "-c", "make  all"), "/w", contained=True, session=1001)
    log.add(ItemReceived(FunctionCall("exec", "{}", "c1")), started, ToolAnswered(FunctionCallOutput("c1", "runs")))
    log.check(running={}, calls={})
    log.add(TurnEnded("completed", "x"))
    assert log.state.sessions.running == {1001: ("1", started)}
    assert log.state.summary().running == (RunningCommand(1001, "make all"),)
    assert log.state.summary().turn is None
    ended = CommandEnded("c1", "", "", 0, 0.1, started=started, ended_by="its time was over")
    log.add(ended, turn="2")
    log.check(outcomes={}, running={})
    assert log.state.sessions.running == {}
    assert log.state.summary().running == ()
    log.add(UserMessage("m2", user("two")), TurnStarted("2"), RequestSent(("m2",)), turn="2")
    news = "Session 1001 (`make all`) does not run any more: its time was over."
    log.check(items=log.state.items)
    assert log.state.items[-2:] == [Message("user", (InputText(news),)), user("two")]
    log.add(RequestSent(), turn="2")
    assert log.state.items[-1] == user("two"), "it is told once"


def test_the_end_of_such_a_command_is_an_outcome_while_its_call_waits() -> None:
    log = begun()
    started = CommandStarted("c1", ("make",), "/w", contained=True, session=1001)
    ended = CommandEnded("c1", "", "", 0, 0.1, started=started)
    log.add(ItemReceived(FunctionCall("exec", "{}", "c1")), started, ended)
    log.check(outcomes={"c1": ended}, running={})
    log.add(RequestSent())
    assert all("Session" not in str(item) for item in log.state.items), "a call that waits is told by its answer"


def test_changed_files_are_those_of_patches_that_were_applied_the_last_at_the_end() -> None:
    log = begun()
    log.add(*patch("c1", "a", "b"), *patch("c2", "c", success=False), *patch("c3", "a"))
    assert list(log.state.changed_files) == ["b", "a"]
    log.add(PatchEnded("nobody", "", "", success=True), ToolCallBegan("c4", "s", "t"), PatchEnded("c4", "", "", success=True))
    assert list(log.state.changed_files) == ["b", "a"]
    log.add(*patch("c5", *(f"f{number}" for number in range(MOST_FILES - 1))))
    assert list(log.state.changed_files)[:2] == ["a", "f0"]
    assert (MOST_FILES, len(log.state.changed_files)) == (200, 200)


def test_an_undo_takes_files_back_and_is_told_to_the_model_once() -> None:
    log = begun()
    log.add(*patch("c1", "a", "b"), TurnEnded("completed", "x"))
    assert log.state.undo.patched == {"1": (5, 6)}
    log.add(UndoStarted("u1", "1", ("a",)), turn="2")
    log.check(submissions=2)
    assert (log.state.undo.begun, log.state.undo.numbers) == (UndoStarted("u1", "1", ("a",)), {"u1": "2"})
    log.add(UndoEnded("u1", "1", ("a",)), turn="2")
    log.check(changed_files={"b": None})
    assert (log.state.undo.begun, log.state.undo.undone) == (None, {"1": None})
    log.add(UserMessage("m2", user("two")), TurnStarted("3"), RequestSent(("m2",)), turn="3")
    news = "The user has undone your patches of an earlier turn.\nThese files are again as they were before it:\n- a"
    assert log.state.items[-2:] == [Message("user", (InputText(news),)), user("two")]


def test_an_undo_that_did_nothing_is_not_told() -> None:
    log = begun()
    log.add(UndoEnded("u1", "1", problem="no"), RequestSent())
    assert log.state.items == [user("one")]


def test_a_name_goes_before_the_title_in_lists() -> None:
    log = begun()
    log.add(Renamed("mine"))
    log.check(name="mine", title="one")
    assert log.state.summary() == Summary("mine", "running", 1, "/w", "m", turn="1")


def test_who_opened_it_and_with_what_program() -> None:
    log = Log()
    log.add(Opened("c", "m", Overrides(cwd="/w"), "p", None, "anna", "script"), turn="0")
    log.check(owner="anna", thread_source="script", overrides=Overrides(cwd="/w"))
    assert log.state.summary() == Summary("New conversation", "idle", 0, "/w", "m", thread_source="script")


def test_a_plan_is_the_last_one() -> None:
    log = begun()
    plans = [PlanUpdated((PlanStep("a", "pending"),)), PlanUpdated((PlanStep("a", "completed"),))]
    log.add(*plans)
    log.check(plan=plans[1])


def test_a_turn_of_its_own_for_a_summary_takes_a_number() -> None:
    log = Log()
    log.add(TurnStarted("1", compacts=True))
    log.check(submissions=1, turn="1")
    log.add(CompactionStarted("asked", 10))
    log.check(requests=1)


def test_the_size_of_the_context_is_counted_until_it_is_compacted() -> None:
    log = begun()
    log.add(ItemReceived(said("a")), TokensCounted(Usage(1, 2, 3), Usage(10, 20, 30)))
    log.check(context_tokens=3, usage=Usage(10, 20, 30))
    log.add(Compacted("summary", 3, 1, "sum", "note", kept=()))
    log.check(context_tokens=None)
    assert log.state.items == [Message("user", (InputText("note\n\nsum"),))]


def test_an_answer_of_the_wrong_form_is_answered_with_why() -> None:
    log = begun()
    log.add(ItemReceived(said("a")), AnswerRejected("no JSON"))
    told = (
        "Your answer does not have the form that was asked for: no JSON\n"
        "Answer again with one JSON value that fits the schema, and nothing before or after it."
    )
    log.check(items=[user("one"), said("a"), Message("user", (InputText(told),))])


def test_a_tool_of_another_server_is_under_way_until_its_end() -> None:
    log = begun()
    began, ended = ToolCallBegan("c1", "s", "t"), ToolCallEnded("c1", "s", "t", 0.1, error="x")
    log.add(ItemReceived(FunctionCall("s__t", "{}", "c1")), began)
    log.check(running={"c1": began})
    log.add(ended)
    log.check(running={}, outcomes={"c1": ended})


def test_only_a_yes_for_the_session_is_remembered() -> None:
    for decision in ("denied", "abort", "approved"):
        log = begun()
        log.add(CommandApprovalAsked("c1", ("rm",), "/w", key="k"), ApprovalDecided("c1", decision, "client", key="k"))
        log.check(approved=set(), questions={})


def test_when_a_question_was_put_is_known_until_the_turn_is_over() -> None:
    log = begun()
    entry = Entry(5, 4, "1", 77.0, CommandApprovalAsked("c1", ("rm",), "/w"))
    log.entries.append(entry)
    log.state.apply(entry)
    log.check(asked_at={"c1": 77.0}, last_at=77.0)
    log.add(TurnEnded("interrupted"))
    log.check(asked_at={})


def test_a_fork_has_the_numbers_of_the_whole_log_and_the_past_of_its_path() -> None:
    log = begun()
    log.add(ItemReceived(said("a")), *patch("c1", "f"), TurnEnded("completed", "a"))
    end = log.state.head
    started = CommandStarted("c2", ("make",), "/w", contained=True, session=1001)
    log.add(UserMessage("m2", user("two")), TurnStarted("2"), started, Renamed("mine"), *patch("c3", "g"), turn="2")
    entry = Entry(log.state.last_seq + 1, log.state.head, "2", 50.0, Noticed("late"))
    log.entries.append(entry)
    log.state.apply(entry)
    whole = log.state
    forked = whole.fork(log.entries, end)
    assert (forked.head, forked.last_seq, forked.last_at) == (end, whole.last_seq, 50.0)
    assert (forked.submissions, forked.name, forked.title) == (2, "mine", "one")
    assert (forked.items, forked.waiting, forked.turn) == ([user("one"), said("a")], {}, None)
    assert list(forked.changed_files) == ["f"], "those of its path"
    assert (forked.message_ends, forked.turn_messages) == (whole.message_ends, {"1": "m1", "2": "m2"})
    assert forked.sessions.running == {1001: ("2", started)}
    assert forked.sessions is not whole.sessions
    assert forked.undo.patched == whole.undo.patched == {"1": (6, 7), "2": (13, 14)}
    assert forked.ledger is whole.ledger

    next_entry = Entry(whole.last_seq + 1, end, "3", 60.0, UserMessage("m3", user("three")))
    read = State.read([*log.entries, next_entry])
    assert (read.items, list(read.waiting), read.submissions) == ([user("one"), said("a")], ["m3"], 3)
    assert (read.last_seq, read.head, read.last_at, read.name) == (next_entry.seq, next_entry.seq, 60.0, "mine")
    assert read.message_ends["m2"] == 9
