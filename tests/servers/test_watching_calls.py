"""Calls as viewers, record by record: whose events, questions and answers go where, and nothing of it twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.e2e.scenes import answered
from tests.support.watching import Watching
from understudy.engine.log.unfinished_text import UNFINISHED_CHARACTERS, cut_off
from understudy.errors import StoreError
from understudy.protocol.items import FunctionCallOutput, InputText, Message, OutputText, Reasoning, SummaryText
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    ItemReceived,
    Noticed,
    OutputDelta,
    PatchApprovalAsked,
    ReasoningDelta,
    RequestSent,
    TextDelta,
    ToolAnswered,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from understudy.protocol.records.files import AddFile
from understudy.servers.mcp import progress
from understudy.servers.wire_events.presentation import Presentation

MAY_I = CommandApprovalAsked("c1", ("touch", "made"), "/work")


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncGenerator[Watching]:
    async with Watching(tmp_path) as here:
        yield here


def user(name: str) -> UserMessage:
    return UserMessage(f"m{name}", Message("user", (InputText(name),)))


def asks(*names: str) -> RequestSent:
    return RequestSent(tuple(f"m{name}" for name in names))


def says(text: str) -> ItemReceived:
    return ItemReceived(Message("assistant", (OutputText(text),)))


def ended(text: str) -> TurnEnded:
    return TurnEnded("completed", text)


def decided(call_id: str = "c1", *, effective: bool = True) -> ApprovalDecided:
    return ApprovalDecided(call_id, "approved", "client", effective=effective)


# -- answers


async def test_a_turn_from_its_beginning_to_its_answer(watching: Watching) -> None:
    call = watching.sent(7, "12")
    await watching.record(user("7"), TurnStarted("12"), asks("7"), turn="12")
    await watching.delta(TextDelta("Hel"), "12")
    await watching.delta(TextDelta("lo"), "12")
    await watching.record(says("Hello"), ended("Hello"), turn="12")
    assert watching.said() == [
        "7 turn 12: task_started",
        "7 turn 12: agent_message_delta Hel",
        "7 turn 12: agent_message_delta lo",
        "7 turn 12: agent_message Hello",
        "7 turn 12: task_complete",
        "7 answered: Hello",
    ]
    assert watching.answered == [7]
    assert not call.following.live
    assert watching.conversation.waiting == []


async def test_the_result_is_exactly_this(watching: Watching) -> None:
    for request_id, presentation in ((1, Presentation()), (2, Presentation(thread_in_text=False))):
        watching.sent(request_id, str(request_id), presentation=presentation)
        name = str(request_id)
        await watching.record(user(name), TurnStarted(name), asks(name), ended("Hello"), turn=name)
    result = answered("Hello", watching.thread)
    results = [frame["result"] for frame in watching.frames() if "result" in frame]
    assert results == [result, result | {"content": result["content"][:1]}]


async def test_a_result_names_the_commands_that_outlive_its_turn(watching: Watching) -> None:
    started = CommandStarted("c1", ("sh", "-c", "make serve"), "/work", contained=True, session=1001)
    watching.sent(1, "1")
    await watching.record(user("1"), TurnStarted("1"), asks("1"), started, ended("It serves."))
    [result] = [frame["result"] for frame in watching.frames() if "result" in frame]
    assert result["structuredContent"]["running"] == {"commands": [{"session_id": 1001, "command": "make serve"}]}
    watching.sent(2, "2")
    over = CommandEnded("c1", "", "", 0, 0.0, started=started)
    await watching.record(user("2"), TurnStarted("2"), asks("2"), over, ended("It is over."), turn="2")
    [result] = [frame["result"] for frame in watching.frames() if "result" in frame]
    assert "running" not in result["structuredContent"]


async def test_an_answer_without_words_is_empty_and_a_failure_without_words_says_that_it_failed(watching: Watching) -> None:
    watching.sent(1, "1")
    await watching.record(user("1"), TurnStarted("1"), asks("1"), TurnEnded("completed"))
    watching.sent(2, "2")
    await watching.record(user("2"), TurnStarted("2"), asks("2"), TurnEnded("failed"), turn="2")
    watching.sent(3, "3")
    await watching.record(user("3"), TurnStarted("3"), asks("3"), TurnEnded("interrupted", "Turn interrupted"), turn="3")
    lines = [line for line in watching.said() if "turn" not in line.split(":")[0]]
    assert lines == ["1 answered: ", "2 fails: the turn failed", "3 fails: Turn interrupted"]


async def test_a_second_answer_is_never_sent(watching: Watching) -> None:
    call = watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"))
    call.failed(StoreError("the disk is full"))
    assert watching.said()[-1] == "7 fails: the disk is full"
    call.failed(StoreError("the disk is still full"))
    call.answer_failure("cancelled")
    await watching.record(says("Hello"), ended("Hello"))
    assert watching.said() == []
    assert watching.answered == [7], "and whoever keeps the calls is told once"


async def test_only_the_answer_comes_after_the_events_and_nothing_after_it(watching: Watching) -> None:
    watching.sent(7, "1", progress=True)
    await watching.record(user("7"), TurnStarted("1"), asks("7"), ended("Hello"))
    await watching.record(TurnStarted("2"), asks(), turn="2")
    assert watching.said() == [
        "7 turn 1: task_started",
        f"p7 step 1: asking the model (thread {watching.thread})",
        "7 turn 1: task_complete",
        "7 answered: Hello",
    ]


async def test_a_heartbeat_ends_with_the_answer_however_that_comes(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.02)
    calls = [watching.sent(name, "1", joined=name == 2, progress=True) for name in (1, 2)]
    await watching.record(user("1"), user("2"), TurnStarted("1"), asks("1", "2"))
    assert sum("step" in line for line in await watching.said_until(9)) >= 8, "both beat"
    calls[0].answer_failure("cancelled")
    await watching.record(ended("Hello"))
    watching.said()
    await asyncio.sleep(0.1)  # five beats' time: that nothing comes can only be seen by waiting
    assert watching.said() == []


# -- whose message is where


async def test_a_call_that_joined_gets_its_answer_and_no_events(watching: Watching) -> None:
    watching.sent(1, "1")
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    watching.sent(2, "1", joined=True)
    await watching.record(user("2"), asks("2"))
    await watching.delta(TextDelta("both"))
    await watching.record(says("both"), ended("both"))
    assert watching.said() == [
        "1 turn 1: task_started",
        "1 turn 1: agent_message_delta both",
        "1 turn 1: agent_message both",
        "1 turn 1: task_complete",
        "1 answered: both",
        "2 answered: both",
    ]


async def test_a_message_that_the_turn_ended_without_reading_is_answered_by_the_next(watching: Watching) -> None:
    watching.sent(1, "1")
    watching.sent(2, "1", joined=True)
    await watching.record(user("1"), TurnStarted("1"), asks("1"), user("2"), ended("one"))
    assert watching.said()[-1] == "1 answered: one"
    await watching.record(TurnStarted("2"), asks("2"), ended("two"), turn="2")
    assert watching.said() == ["2 answered: two"], "the turn is one that it has not begun"


@pytest.mark.parametrize("reason", ["failed", "interrupted"])
async def test_a_message_that_a_failed_turn_had_not_read_fails_with_it(watching: Watching, reason: str) -> None:
    watching.sent(1, "1")
    watching.sent(2, "1", joined=True)
    over = TurnEnded("failed" if reason == "failed" else "interrupted", "no more")
    await watching.record(user("1"), TurnStarted("1"), asks("1"), user("2"), over)
    assert [line for line in watching.said() if "fails" in line] == ["1 fails: no more", "2 fails: no more"]


async def test_a_message_that_is_not_in_the_log_yet_outlives_even_a_failed_turn(watching: Watching) -> None:
    """As a letter to a turn of another process, which fails before it looks."""
    watching.sent(2, "1", joined=True)
    await watching.record(user("1"), TurnStarted("1"), asks("1"), TurnEnded("failed", "broken"))
    assert watching.said() == []
    await watching.record(user("2"), TurnStarted("2"), asks("2"), ended("two"), turn="2")
    assert watching.said() == ["2 turn 2: task_started", "2 turn 2: task_complete", "2 answered: two"]


async def test_a_held_message_begins_a_turn_whose_events_are_its_own(watching: Watching) -> None:
    watching.sent(1, "1")
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    watching.sent(2, "", held=True)
    await watching.delta(TextDelta("dying"))
    await watching.record(TurnEnded("interrupted", "Turn interrupted"))
    assert watching.said() == [
        "1 turn 1: task_started",
        "1 turn 1: agent_message_delta dying",
        "1 turn 1: error Turn interrupted",
        "1 turn 1: task_complete",
        "1 fails: Turn interrupted",
    ]
    await watching.record(user("2"), TurnStarted("3"), asks("2"), turn="3")
    await watching.delta(TextDelta("new"), "3")
    await watching.record(ended("new"), turn="3")
    assert watching.said() == [
        "2 turn 3: task_started",
        "2 turn 3: agent_message_delta new",
        "2 turn 3: task_complete",
        "2 answered: new",
    ]


async def test_a_held_message_that_joins_the_turn_of_the_one_before_it_gets_only_its_answer(watching: Watching) -> None:
    watching.sent(2, "", held=True)
    watching.sent(3, "", held=True)
    await watching.record(user("2"), TurnStarted("3"), user("3"), asks("2", "3"), turn="3")
    await watching.delta(TextDelta("new"), "3")
    await watching.record(says("new"), ended("new"), turn="3")
    assert watching.said() == [
        "2 turn 3: task_started",
        "2 turn 3: agent_message_delta new",
        "2 turn 3: agent_message new",
        "2 turn 3: task_complete",
        "2 answered: new",
        "3 answered: new",
    ]


@pytest.mark.parametrize("other", ["0", "2", "10"])
async def test_other_turns_are_not_shown_to_a_call(watching: Watching, other: str) -> None:
    watching.sent(5, "1")
    await watching.record(user("5"), TurnStarted("1"))
    watching.said()
    await watching.record(user("6"), TurnStarted(other), asks("6"), Noticed("elsewhere"), turn=other)
    await watching.delta(TextDelta("elsewhere"), other)
    await watching.record(ended("elsewhere"), turn=other)
    assert watching.said() == []


async def test_messages_of_others_with_any_name_are_not_taken_for_the_call_s_own(watching: Watching) -> None:
    watching.sent(5, "1")
    for other in ("4", "6"):
        await watching.record(user(other), TurnStarted(other), asks(other), ended("not yours"), turn=other)
    assert watching.said() == []
    await watching.record(user("5"), TurnStarted("1"), asks("5"), ended("yours"), turn="1")
    assert watching.said() == ["5 turn 1: task_started", "5 turn 1: task_complete", "5 answered: yours"]


async def test_a_call_that_joined_shows_the_turn_it_began_after_all(watching: Watching) -> None:
    """The turn that it was sent to, in another process, was over: the message began the one after it."""
    watching.sent(2, "1", joined=True)
    await watching.record(ended("long ago"))
    await watching.record(user("2"), TurnStarted("2"), asks("2"), turn="2")
    await watching.delta(TextDelta("h"), "2")
    assert watching.said() == ["2 turn 2: task_started", "2 turn 2: agent_message_delta h"]


# -- questions


async def test_a_question_is_put_once_and_withdrawn_when_another_has_answered(watching: Watching) -> None:
    call = watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"), MAY_I)
    call.following.taken_over()
    assert watching.said() == ["7 turn 1: task_started", "7 turn 1: exec_approval_request", "7 asks about c1 of turn 1"]
    await watching.record(decided(effective=False))
    assert watching.said() == [], "an answer that came too late closes nothing"
    await watching.record(decided())
    assert watching.said() == ["withdraws c1"]


async def test_a_question_is_withdrawn_when_the_model_was_told_without_an_answer(watching: Watching) -> None:
    watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"), MAY_I)
    await watching.record(ToolAnswered(FunctionCallOutput("c2", "another")))
    watching.said()
    await watching.record(ToolAnswered(FunctionCallOutput("c1", "aborted")))
    assert watching.said() == ["withdraws c1"]


async def test_a_patch_is_asked_about_too(watching: Watching) -> None:
    watching.sent(7, "1")
    question = PatchApprovalAsked("p1", {"/work/a": AddFile("x")})
    await watching.record(user("7"), TurnStarted("1"), asks("7"), question)
    assert watching.said()[-2:] == ["7 turn 1: apply_patch_approval_request", "7 asks about p1 of turn 1"]


async def test_a_call_that_joined_asks_nothing_until_the_turn_is_taken_up_here(watching: Watching) -> None:
    joined = watching.sent(2, "1", joined=True)
    await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I, user("2"))
    assert watching.said() == []
    joined.following.taken_over()
    assert watching.said() == ["2 asks about c1 of turn 1"]
    await watching.record(decided(), Noticed("going on"), asks("2"), ended("done"))
    assert watching.said() == [
        "withdraws c1",
        "2 turn 1: background_event going on",
        "2 turn 1: task_complete",
        "2 answered: done",
    ]


async def test_a_call_to_a_turn_that_waited_asks_what_is_open_unless_it_is_held(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I)
    watching.sent(3, "", held=True)
    watching.sent(4, "1", joined=True)
    assert watching.said() == []
    watching.sent(2, "1")
    assert watching.said() == ["2 asks about c1 of turn 1"]


async def test_the_same_call_id_in_the_next_turn_is_another_question(watching: Watching) -> None:
    watching.sent(1, "1")
    await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I, decided(), ended("one"))
    watching.sent(2, "2")
    await watching.record(user("2"), TurnStarted("2"), asks("2"), MAY_I, turn="2")
    questions = [line for line in watching.said() if "asks" in line or "withdraws" in line]
    assert questions == ["2 asks about c1 of turn 2"], "the first was decided before anyone was shown it"


# -- how it looks


async def test_events_are_sent_as_the_client_or_the_configuration_wants(watching: Watching) -> None:
    watching.client.methods = "none"
    for request_id, presentation in (
        ("auto", Presentation()),
        ("both", Presentation(events="both")),
        ("one", Presentation(events="codex/event")),
        ("no", Presentation(events="none")),
    ):
        call = watching.sent(request_id, "1", presentation=presentation)
        assert call.following.live
    await watching.record(TurnStarted("1"))
    assert watching.said() == [
        "both turn 1: task_started",
        "both turn 1: task_started by its own name",
        "one turn 1: task_started",
    ]
    watching.client.methods = "codex/event"
    watching.sent("auto again", "2")
    await watching.record(TurnStarted("2"), turn="2")
    assert watching.said() == ["auto again turn 2: task_started"]


async def test_hidden_reasoning_is_not_sent_and_not_a_step(watching: Watching) -> None:
    watching.sent(1, "1", presentation=Presentation(hides_reasoning=True), progress=True)
    watching.sent(2, "1")
    thought = ItemReceived(Reasoning((SummaryText("Hm"),)))
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    watching.said()
    await watching.delta(ReasoningDelta("H"))
    await watching.record(thought, says("Hello"))
    assert watching.said() == [
        "2 turn 1: agent_reasoning_delta H",
        "2 turn 1: agent_reasoning Hm",
        "1 turn 1: agent_message Hello",
        "p1 step 2: Hello",
        "2 turn 1: agent_message Hello",
    ]


async def test_a_call_that_joined_is_told_of_steps_by_progress(watching: Watching) -> None:
    watching.sent(2, "1", joined=True, progress=True)
    await watching.record(user("1"), TurnStarted("1"), asks("1"), user("2"))
    await watching.record(CommandStarted("c1", ("ls",), "/work", contained=True), CommandEnded("c1", "", "", 0, 0.0))
    assert watching.said() == [
        f"p2 step 1: asking the model (thread {watching.thread})",
        "p2 step 2: runs ls",
        "p2 step 3: command ended with exit code 0",
    ]


# -- falling behind


async def test_a_client_that_does_not_read_gets_the_records_once_it_does_and_missed_deltas_in_one(watching: Watching) -> None:
    watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"))
    await watching.delta(TextDelta("a"))
    assert watching.said() == ["7 turn 1: task_started", "7 turn 1: agent_message_delta a"]
    watching.sink.pause()
    for text in "bcd":
        await watching.delta(TextDelta(text))
    await watching.delta(OutputDelta("c1", "stdout", b"out"))
    await watching.record(Noticed("meanwhile"))
    assert watching.said() == []
    watching.sink.resume()
    assert await watching.said_until(3) == [
        "7 turn 1: background_event meanwhile",
        "7 turn 1: agent_message_delta bcd",
        "7 turn 1: exec_command_output_delta",
    ]
    watching.sink.pause()
    await watching.delta(TextDelta("e"))
    await watching.record(says("abcde"), ended("abcde"))
    watching.sink.resume()
    assert await watching.said_until(3) == ["7 turn 1: agent_message abcde", "7 turn 1: task_complete", "7 answered: abcde"]
    assert watching.answered == [7]


async def test_a_client_that_was_behind_when_the_turn_was_cut_off_gets_the_rest_of_what_was_said(watching: Watching) -> None:
    watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"))
    await watching.delta(TextDelta("half "))
    watching.said()
    watching.sink.pause()
    await watching.delta(TextDelta("a sentence"))
    await watching.record(TurnEnded("interrupted", "Turn interrupted", unfinished="half a sentence"))
    watching.sink.resume()
    assert await watching.said_until(4) == [
        "7 turn 1: agent_message_delta a sentence",
        "7 turn 1: error Turn interrupted",
        "7 turn 1: task_complete",
        "7 fails: Turn interrupted",
    ]


@pytest.mark.parametrize("beyond", [0, 5, 100])
async def test_a_client_that_has_all_of_a_huge_answer_that_was_cut_off_gets_nothing_of_it_twice(
    watching: Watching, beyond: int
) -> None:
    watching.sent(7, "1")
    await watching.record(user("7"), TurnStarted("1"), asks("7"))
    text = "x" * (UNFINISHED_CHARACTERS + beyond)
    await watching.delta(TextDelta(text))
    watching.said()
    await watching.record(TurnEnded("interrupted", "Turn interrupted", unfinished=cut_off(text)))
    assert watching.said() == ["7 turn 1: error Turn interrupted", "7 turn 1: task_complete", "7 fails: Turn interrupted"]
