"""Streams as viewers, record by record: a snapshot and what comes after it, met at a sequence number, and nothing twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.servers.test_watching_calls import MAY_I, asks, decided, ended, says, user
from tests.support.watching import Watching
from understudy.errors import StoreError
from understudy.protocol.items import FunctionCallOutput, Reasoning, SummaryText
from understudy.protocol.records import ItemReceived, Noticed, ReasoningDelta, TextDelta, ToolAnswered, TurnEnded, TurnStarted
from understudy.servers.wire_events.presentation import Presentation


@pytest.fixture
async def watching(tmp_path: Path) -> AsyncGenerator[Watching]:
    async with Watching(tmp_path) as here:
        yield here


async def test_a_stream_begins_with_all_that_was_and_goes_on_with_what_comes(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    await watching.delta(TextDelta("Hel"))
    await watching.stream("s")
    assert watching.said() == ["snapshot of task_started agent_message_delta Hel"]
    await watching.delta(TextDelta("lo"))
    await watching.record(says("Hello"), ended("Hello"))
    assert watching.said() == [
        "stream: agent_message_delta lo by its own name",
        "stream: agent_message Hello by its own name",
        "stream: task_complete by its own name",
    ]


async def test_after_a_number_only_what_is_later_is_told_and_each_event_says_where_it_stands(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"), says("one"))  # 2 to 5, behind the first record
    await watching.stream("s", after=3)
    [snapshot] = watching.frames()
    told = [(event["_meta"], event["msg"]["type"]) for event in snapshot["params"]["initial_state"]["events"]]
    assert told == [({"conversationId": watching.thread, "seq": 5, "messageId": "m1"}, "agent_message")]
    await watching.record(user("2"), ended("one"))
    assert watching.said() == ["stream 6: user_message 2 by its own name", "stream 7: task_complete by its own name"]


async def test_text_that_was_cut_off_is_in_the_snapshot(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    await watching.record(TurnEnded("interrupted", "Turn interrupted", unfinished="half a sen"))
    await watching.stream("s")
    assert watching.said() == ["snapshot of task_started agent_message_delta half a sen error Turn interrupted task_complete"]


async def test_a_question_is_put_once_to_a_client_that_calls_and_streams(watching: Watching) -> None:
    watching.sent(7, "1")
    await watching.stream("s")
    await watching.record(user("7"), TurnStarted("1"), asks("7"), MAY_I)
    await watching.stream("t")
    said = watching.said()
    assert [line for line in said if " asks " in line] == ["7 asks about c1 of turn 1"]
    await watching.record(decided())
    assert watching.said() == ["withdraws c1"]


async def test_a_stream_asks_what_is_open_when_it_comes_and_withdraws_what_was_settled_elsewhere(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I)
    first = await watching.stream("s")
    assert watching.said() == ["snapshot of task_started exec_approval_request", "s asks about c1 of turn 1"]
    first.stop()
    await watching.record(decided(effective=False), decided())
    assert watching.said() == []
    await watching.stream("t", after=6)
    assert watching.said() == ["snapshot of", "withdraws c1"]


async def test_a_question_is_withdrawn_when_the_model_was_told_without_an_answer(watching: Watching) -> None:
    await watching.stream("s")
    await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I)
    watching.said()
    await watching.record(ToolAnswered(FunctionCallOutput("c2", "another")), ToolAnswered(FunctionCallOutput("c1", "aborted")))
    assert watching.said() == ["withdraws c1"]


async def test_a_client_that_cannot_be_asked_only_watches(tmp_path: Path) -> None:
    async with Watching(tmp_path, can_be_asked=False) as watching:
        stream = await watching.stream("s")
        assert not stream.can_answer
        await watching.record(user("1"), TurnStarted("1"), asks("1"), MAY_I)
        assert [line for line in watching.said() if "asks" in line] == []
        assert list(watching.conversation.state.questions) == ["c1"], "it waits for somebody who can"


async def test_a_stream_that_is_over_says_why_once_and_nothing_more(watching: Watching) -> None:
    stream = await watching.stream("s")
    watching.said()
    stream.failed(StoreError("the disk is full"))
    stream.disconnect("again")
    [frame] = watching.frames()
    assert (frame["method"], frame["params"]["reason"]) == ("notifications/stream_disconnected", "the disk is full")
    assert frame["params"]["_meta"] == {"conversationId": watching.thread, "requestId": "s"}
    await watching.record(Noticed("later"))
    assert watching.said() == []
    assert (stream.over, stream.following.live) == (True, False)


async def test_hidden_reasoning_is_neither_in_the_snapshot_nor_live(watching: Watching) -> None:
    thought = ItemReceived(Reasoning((SummaryText("Hm"),)))
    await watching.record(user("1"), TurnStarted("1"), asks("1"), thought)
    await watching.delta(ReasoningDelta("so"))
    await watching.stream("s", presentation=Presentation(hides_reasoning=True))
    assert watching.said() == ["snapshot of task_started"]
    await watching.delta(ReasoningDelta(" far"))
    await watching.record(thought, says("Hello"))
    assert watching.said() == ["stream: agent_message Hello by its own name"]


async def test_a_stream_that_does_not_read_is_told_the_records_once_it_does_and_the_missed_text_in_one(watching: Watching) -> None:
    await watching.stream("s")
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    await watching.delta(TextDelta("a"))
    watching.said()
    watching.sink.pause()
    for text in "bcd":
        await watching.delta(TextDelta(text))
    await watching.record(*(Noticed(f"{n}") for n in range(300)))  # more than a page
    assert watching.said() == []
    watching.sink.resume()
    notices = [f"stream: background_event {n} by its own name" for n in range(300)]
    assert await watching.said_until(301) == [*notices, "stream: agent_message_delta bcd by its own name"]
    await watching.delta(TextDelta("e"))
    assert watching.said() == ["stream: agent_message_delta e by its own name"]


async def test_a_stream_that_was_behind_when_the_turn_was_cut_off_gets_the_rest_of_what_was_said(watching: Watching) -> None:
    await watching.stream("s", after=0)
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    await watching.delta(TextDelta("half "))
    watching.said()
    watching.sink.pause()
    await watching.delta(TextDelta("a sentence"))
    await watching.record(TurnEnded("interrupted", "Turn interrupted", unfinished="half a sentence"))
    watching.sink.resume()
    assert await watching.said_until(3) == [
        "stream 4: agent_message_delta a sentence by its own name",
        "stream 5: error Turn interrupted by its own name",
        "stream 5: task_complete by its own name",
    ]


async def test_a_question_is_put_to_a_stream_once_it_is_on_disk_and_once_only(watching: Watching) -> None:
    await watching.record(user("1"), TurnStarted("1"), asks("1"))
    watching.conversation.tail.append(MAY_I, turn="1")
    await watching.stream("s")
    assert watching.said() == ["snapshot of task_started"]
    await watching.record()
    assert watching.said() == ["stream: exec_approval_request by its own name", "s asks about c1 of turn 1"]


async def test_a_following_that_was_stopped_before_it_went_live_stays_so(watching: Watching) -> None:
    call = watching.call(7)
    call.following.stop()
    call.following.go_live()
    call.following.wait()
    assert not call.following.live
    assert not watching.conversation.waiting
