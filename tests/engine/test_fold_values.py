"""What each record means, value by value: the state after every step of one conversation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from understudy.engine.log.facts import path_to, title_from
from understudy.engine.log.fold import State
from understudy.engine.log.recovery import can_go_on, close_open_calls
from understudy.errors import StoreError
from understudy.protocol.items import FunctionCall, FunctionCallOutput, InputText, Message, OutputText, Reasoning, Usage
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    DiffChanged,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    Pin,
    Pins,
    Record,
    RequestSent,
    TokensCounted,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile
from understudy.store.log import Summary


def user(text: str) -> Message:
    return Message("user", (InputText(text),))


def said(text: str) -> Message:
    return Message("assistant", (OutputText(text),))


def contents(state: State) -> dict[str, Any]:
    return {**msgspec.structs.asdict(state), "history": vars(state.history)}


class Log:
    def __init__(self) -> None:
        self.state = State()
        self.entries: list[Entry] = []
        self.add(Opened("c", "m", Overrides(model="m", cwd="/w"), "p"), turn="0")

    def add(self, *records: Record, turn: str = "1") -> None:
        for record in records:
            entry = Entry(self.state.last_seq + 1, self.state.head, turn, 1.0, record)
            self.entries.append(entry)
            self.state.apply(entry)

    def check(self, **expected: Any) -> None:
        for name, value in expected.items():
            assert getattr(self.state, name) == value, name
            assert getattr(State.read(self.entries), name) == value, f"{name}, read back"


def test_an_opened_conversation() -> None:
    log = Log()
    log.check(last_seq=1, head=1, model="m", overrides=Overrides(model="m", cwd="/w"), items=[], waiting={}, turn=None, usage=None)
    log.check(requests=0, submissions=0, title="", message_count=0, status="idle")
    assert log.state.summary() == Summary("New conversation", "idle", 0, "/w", "m")


def test_a_message_waits_until_a_request_names_it() -> None:
    log = Log()
    first, second = UserMessage("m1", user("one")), UserMessage("m2", user("two"), Overrides(model="n", config={"a": 1}))
    log.add(first)
    log.check(
        waiting={"m1": first},
        items=[],
        submissions=1,
        message_count=1,
        message_ends={"m1": 2},
        turn_messages={"1": "m1"},
        title="one",
    )
    log.add(TurnStarted("1"), second)
    log.check(turn="1", status="running", submissions=2, message_count=2, title="one", turn_messages={"1": "m1"})
    log.check(overrides=Overrides(model="n", cwd="/w", config={"a": 1}))
    log.add(RequestSent(("m1",)))
    log.check(waiting={"m2": second}, items=[user("one")], requests=1, answer=None)
    log.add(RequestSent(("m2",)))
    log.check(waiting={}, items=[user("one"), user("two")], requests=2)
    log.add(RequestSent(("m2",)))
    log.check(items=[user("one"), user("two")], requests=3)
    assert log.state.summary() == Summary("one", "running", 2, "/w", "n", turn="1")


def test_the_last_words_are_the_answer_and_a_request_begins_anew() -> None:
    log = Log()
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), RequestSent(("m1",)))
    log.add(ItemReceived(Reasoning()), ItemReceived(said("first")))
    log.check(answer="first", message_count=2)
    log.add(ItemReceived(said("")))
    log.check(answer="first", message_count=3)
    log.add(RequestSent())
    log.check(answer=None)
    log.add(ItemReceived(said("second")), TurnEnded("completed", "second"))
    log.check(answer="second", turn=None, status="idle", message_ends={"m1": log.state.last_seq})
    log.add(UserMessage("m2", user("two")), TurnStarted("2"), turn="2")
    log.check(answer=None, turn="2", turn_messages={"1": "m1", "2": "m2"}, message_ends={"m1": 10, "m2": 11})


def test_a_call_is_open_until_it_is_answered_and_its_outcome_known_until_then() -> None:
    log = Log()
    call, other = FunctionCall("shell", "{}", "c1"), FunctionCall("apply_patch", "{}", "c2")
    started, ended = CommandStarted("c1", ("ls",), "/w", contained=True), CommandEnded("c1", "out", "err", 3, 0.1)
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), RequestSent(("m1",)), ItemReceived(call), ItemReceived(other))
    log.check(calls={"c1": call, "c2": other}, running={}, outcomes={})
    log.add(started)
    log.check(running={"c1": started}, outcomes={})
    log.add(ended)
    log.check(running={}, outcomes={"c1": ended}, calls={"c1": call, "c2": other})
    log.add(ToolAnswered(FunctionCallOutput("c1", "out")))
    log.check(calls={"c2": other}, outcomes={}, items=[user("one"), call, other, FunctionCallOutput("c1", "out")])
    patch = PatchStarted("c2", {"f": AddFile("x")}, auto_approved=True)
    log.add(patch)
    log.check(running={"c2": patch})
    log.add(PatchEnded("c2", "", "", success=True))
    log.check(running={}, outcomes={"c2": PatchEnded("c2", "", "", success=True)})
    log.add(TurnEnded("failed", "why"))
    log.check(calls={}, running={}, outcomes={}, questions={}, turn=None)


def test_a_question_is_open_until_the_first_answer_that_counts() -> None:
    log = Log()
    question = CommandApprovalAsked("c1", ("rm",), "/w", key="k1")
    other = PatchApprovalAsked("c2", {"f": AddFile("x")})
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), question, other)
    log.check(questions={"c1": question, "c2": other}, status="waiting", submissions=1)
    assert log.state.summary().pending == ("c1", "c2")
    log.add(ApprovalDecided("c1", "approved_for_session", "client", effective=False, key="k1"))
    log.check(questions={"c1": question, "c2": other}, approved=set(), submissions=1)
    log.add(ApprovalDecided("c1", "approved", "client", key="k1"))
    log.check(questions={"c2": other}, approved=set(), submissions=2)
    log.add(ApprovalDecided("c2", "approved_for_session", "client", key="k2"))
    log.check(questions={}, approved={"k2"}, submissions=3, status="running")
    log.add(question, ApprovalDecided("c1", "approved_for_session", "client"))
    log.check(approved={"k2"})
    log.add(question, ToolAnswered(FunctionCallOutput("c1", "no")))
    log.check(questions={})
    log.add(question, TurnEnded("interrupted", "Turn interrupted", asked_for=True))
    log.check(questions={}, submissions=5, approved={"k2"})


def test_tokens_are_those_of_all_answers() -> None:
    log = Log()
    log.add(TokensCounted(Usage(1, 2, 3)))
    log.check(usage=Usage(1, 2, 3))
    log.add(TokensCounted(Usage(1, 2, 3), Usage(2, 4, 6, 1, 0)))
    log.check(usage=Usage(2, 4, 6, 1, 0))
    assert Usage(1, 2, 3, 4, 5).plus(Usage(10, 20, 30, 40, 50)) == Usage(11, 22, 33, 44, 55)
    assert Usage(1, 2, 3).plus(Usage(10, 20, 30)) == Usage(11, 22, 33, None, None)
    assert Usage(1, 2, 3, None, 7).plus(Usage(1, 1, 1, 5, None)) == Usage(2, 3, 4, 5, 7)


def test_what_is_only_for_viewers_changes_nothing_but_the_place() -> None:
    log = Log()
    before = {name: value for name, value in msgspec.structs.asdict(log.state).items() if name not in ("last_seq", "head")}
    log.add(Noticed("x"), DiffChanged("d"))
    assert {name: value for name, value in msgspec.structs.asdict(log.state).items() if name not in ("last_seq", "head")} == before
    log.check(last_seq=3, head=3)


def test_words_cut_off_stay_and_messages_of_a_turn_end_with_it() -> None:
    log = Log()
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), RequestSent(("m1",)), UserMessage("m2", user("two")))
    log.add(TurnEnded("interrupted", "Turn interrupted", "half"))
    log.check(items=[user("one"), said("half")], message_ends={"m1": 6, "m2": 6}, submissions=2)
    log.add(UserMessage("m3", user("three")), TurnStarted("4"), RequestSent(("m2", "m3")), TurnEnded("completed", "x"), turn="4")
    log.check(message_ends={"m1": 6, "m2": 10, "m3": 10}, items=[user("one"), said("half"), user("two"), user("three")])


def test_what_another_process_appended_is_taken_in_only_where_it_follows() -> None:
    log, behind = Log(), State()
    log.add(UserMessage("m1", user("one")), TurnStarted("1"))
    assert behind.extend(log.entries[:1]) is True
    assert behind.extend([log.entries[2]]) is False
    assert behind.last_seq == 1
    assert behind.extend(log.entries[1:]) is True
    assert contents(behind) == contents(log.state)


# -- closing what a crash left


def opened_calls(*records: Record) -> State:
    log = Log()
    log.add(UserMessage("m1", user("one")), TurnStarted("1"), RequestSent(("m1",)))
    log.add(*(ItemReceived(FunctionCall("shell", "{}", name)) for name in ("c1", "c2", "c3", "c4")), *records)
    return log.state


UNKNOWN = "the server stopped while this ran; whether it took effect is not known"


def test_what_had_begun_is_closed_with_its_outcome_unknown_and_the_rest_as_it_was() -> None:
    state = opened_calls(
        CommandStarted("c1", ("x",), "/w", contained=True),
        CommandStarted("c2", ("y",), "/w", contained=True),
        CommandEnded("c2", "printed\n", "", 7, 0.1),
        PatchStarted("c3", {}, auto_approved=True),
    )
    assert close_open_calls(state) == [
        CommandEnded("c1", "", UNKNOWN, -1, 0.0),
        PatchEnded("c3", "", UNKNOWN, success=False),
        ToolAnswered(FunctionCallOutput("c1", f"interrupted: {UNKNOWN}"), success=False),
        ToolAnswered(FunctionCallOutput("c2", "interrupted: the command had ended with exit code 7\nprinted"), success=False),
        ToolAnswered(FunctionCallOutput("c3", f"interrupted: {UNKNOWN}"), success=False),
        ToolAnswered(FunctionCallOutput("c4", "aborted"), success=False),
    ]


def test_the_model_is_told_what_became_of_a_patch() -> None:
    state = opened_calls(
        PatchStarted("c1", {}, auto_approved=True),
        PatchEnded("c1", "", "", success=True),
        PatchStarted("c2", {}, auto_approved=True),
        PatchEnded("c2", "", "does not fit\n", success=False),
    )
    texts = [record.output.output for record in close_open_calls(state) if isinstance(record, ToolAnswered)]
    assert texts == ["interrupted: the patch had been applied", "interrupted: the patch failed\ndoes not fit", "aborted", "aborted"]


def test_a_call_of_another_server_s_tool_is_closed_with_its_outcome_or_as_unknown() -> None:
    said = {"content": [{"type": "text", "text": "noon"}, {"type": "image"}]}
    state = opened_calls(
        ToolCallBegan("c1", "time", "set", {"to": 1}),
        ToolCallBegan("c2", "time", "now"),
        ToolCallEnded("c2", "time", "now", 0.1, result=said),
        ToolCallBegan("c3", "time", "now"),
        ToolCallEnded("c3", "time", "now", 0.1, error="it is gone"),
    )
    assert close_open_calls(state) == [
        ToolCallEnded("c1", "time", "set", 0.0, {"to": 1}, error=UNKNOWN),
        ToolAnswered(FunctionCallOutput("c1", f"interrupted: {UNKNOWN}"), success=False),
        ToolAnswered(FunctionCallOutput("c2", "interrupted: the tool had ended\nnoon\n[image]"), success=False),
        ToolAnswered(FunctionCallOutput("c3", "interrupted: the tool had failed\nit is gone"), success=False),
        ToolAnswered(FunctionCallOutput("c4", "aborted"), success=False),
    ]


def test_only_a_turn_that_waits_for_an_answer_can_go_on() -> None:
    question = CommandApprovalAsked("c1", ("rm",), "/w")
    assert can_go_on(opened_calls(question))
    assert not can_go_on(opened_calls())
    assert not can_go_on(opened_calls(question, CommandStarted("c2", ("x",), "/w", contained=True)))


def test_a_title_has_eighty_characters_at_most_and_none_is_left_out_needlessly() -> None:
    assert title_from(user("x" * 80)) == "x" * 80
    assert title_from(user("x" * 81)) == "x" * 79 + "…"
    assert title_from(user("x" * 78 + " yyy")) == "x" * 78 + "…"
    assert title_from(user("x" * 200)) == "x" * 79 + "…"


def entry(seq: int, parent: int) -> Entry:
    return Entry(seq, parent, "1", 1.0, Noticed(str(seq)))


def test_a_path_leaves_out_what_is_beside_it() -> None:
    straight, forked = [entry(1, 0), entry(2, 1), entry(3, 2)], [entry(1, 0), entry(2, 1), entry(3, 1)]
    assert [one.seq for one in path_to(straight)] == [1, 2, 3]
    assert [one.seq for one in path_to(straight, 2)] == [1, 2]
    assert [one.seq for one in path_to(forked)] == [1, 3]
    assert [one.seq for one in path_to(forked, 2)] == [1, 2]
    with pytest.raises(StoreError, match="record 2 is missing"):
        path_to([entry(1, 0), entry(3, 2), entry(5, 3)])


def test_what_was_appended_elsewhere_is_gone_on_with_only_on_the_same_path() -> None:
    state = State.of([entry(1, 0), entry(2, 1)])
    for other in ([entry(3, 1)], [entry(4, 3)], [entry(3, 2), entry(4, 2)], [entry(3, 2), entry(5, 4)]):
        assert state.extend(other) is False
        assert (state.head, state.last_seq) == (2, 2)
    assert state.extend([]) is True
    assert state.extend([entry(3, 2), entry(4, 3)]) is True
    assert (state.head, state.last_seq) == (4, 4)


def test_the_places_of_a_conversation_are_those_it_began_with_until_a_message_brings_others() -> None:
    log = Log()
    assert log.state.pins is None
    began, later = Pins("b", (Pin("/w", "/w", 1, 2),)), Pins("b", (Pin("/v", "/v", 3, 4),))
    log.add(Opened("c", "m", Overrides(model="m", cwd="/w"), "p", began), turn="0")
    log.check(pins=began)
    log.add(UserMessage("m1", user("one")))
    log.check(pins=began)
    log.add(UserMessage("m2", user("two"), pins=later))
    log.check(pins=later)


def test_the_end_of_a_turn_closes_whatever_it_had_begun() -> None:
    log = Log()
    log.add(TurnStarted("1"), ItemReceived(FunctionCall("shell", "{}", "c1")), CommandStarted("c1", ("ls",), "/w", contained=True))
    log.add(CommandApprovalAsked("c2", ("rm", "x"), "/w"), CommandEnded("c3", "", "", 0, 0.0))
    assert [len(each) for each in (log.state.calls, log.state.running, log.state.questions, log.state.outcomes)] == [1, 1, 1, 1]
    log.add(TurnEnded("interrupted"))
    log.check(calls={}, running={}, questions={}, outcomes={}, turn=None, status="idle")
