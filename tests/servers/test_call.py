"""One request from its arrival to its one answer: which answer counts, who is told of it, and what a cancellation does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.support.connections import EngineHere, Json, KeepingSink
from understudy.engine.log.durable import Durable
from understudy.errors import AgentError, BadRequest, StoreError
from understudy.protocol.callers import LOCAL
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.records import Noticed, Overrides
from understudy.servers.mcp.call import LATER, SERVER_ENDED, Call, ClientContext, OnceDurable
from understudy.servers.mcp.peer import Peer
from understudy.servers.mcp.results import SESSION


class Scene:
    def __init__(self, here: EngineHere) -> None:
        self.sink = KeepingSink()
        self.client = ClientContext(here.engine, LOCAL, Peer(), self.sink)

    def call(self, request_id: RequestId = 7, arguments: Any = None) -> Call:
        return Call(request_id, arguments, self.sink, self.client)

    def answers(self) -> list[tuple[RequestId | None, Json]]:
        kept, self.sink.kept = self.sink.kept, []
        return kept


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with EngineHere(tmp_path) as here:
        yield Scene(here)


def result(value: Any, request_id: RequestId = 7) -> tuple[RequestId, Json]:
    return request_id, {"id": request_id, "jsonrpc": "2.0", "result": value}


def error(text: str, code: int = -32000, kind: str = "store_error") -> tuple[RequestId, Json]:
    return 7, {"id": 7, "jsonrpc": "2.0", "error": {"code": code, "message": text, "data": {"kind": kind}}}


# -- answering


async def test_a_call_begins_unanswered_and_not_cancelled_with_what_it_was_given(scene: Scene) -> None:
    call = scene.call("seven", {"a": 1})
    assert (call.id, call.arguments, call.answered, call.cancelled, call.progress_token) == ("seven", {"a": 1}, False, False, None)
    client = scene.client
    made_for_others = (client.call_viewer, client.stream_viewer, client.snapshots)
    assert made_for_others == (None,) * 3
    assert (client.streams_answer_at_end, client.capabilities, client.created_by, client.streams) == (False, {}, {}, {})


async def test_what_a_handler_returned_is_the_answer_unless_somebody_else_answers_later(scene: Scene) -> None:
    first, second = scene.call(), scene.call("x")
    first.finish(LATER)
    assert (scene.answers(), first.answered) == ([], False)
    first.finish({"a": 1})
    second.finish({"b": 2})
    assert scene.answers() == [result({"a": 1}), result({"b": 2}, "x")]
    assert first.answered


async def test_a_result_that_has_to_be_on_disk_waits_for_that_or_says_why_it_is_not(scene: Scene) -> None:
    for reason, expected in ((None, result({"a": 1})), (StoreError("the disk is full"), error("the disk is full"))):
        call, durable = scene.call(), Durable()
        call.finish(OnceDurable(durable, {"a": 1}))
        assert (scene.answers(), call.answered) == ([], False)
        durable.tell(reason)
        assert scene.answers() == [expected]


async def test_the_first_answer_counts_and_later_ones_are_noted(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    told: list[str] = []
    call = scene.call()
    call.when_answered(lambda call: told.append(f"first {call.id}"))
    call.when_answered(lambda call: told.append(f"second {call.id}"))
    call.answer(1)
    assert told == ["first 7", "second 7"]
    call.answer(2)
    call.fail(StoreError("late"))
    call.server_ends()
    assert scene.answers() == [result(1)]
    assert told == ["first 7", "second 7"], "once"
    assert caplog.messages == ["a second answer to request 7 is dropped", "request 7 failed after its answer: late"]


async def test_whoever_is_told_of_the_answer_finds_it_sent(scene: Scene) -> None:
    seen: list[tuple[bool, int]] = []
    call = scene.call()
    call.when_answered(lambda call: seen.append((call.answered, len(scene.sink.kept))))
    call.fail(BadRequest("no"))
    assert seen == [(True, 1)]
    assert scene.answers() == [error("no", -32602, "bad_request")]


async def test_an_answer_that_cannot_be_written_is_told_as_a_failure(scene: Scene) -> None:
    for shape in (None, SESSION):
        call = scene.call()
        call.shape = shape or call.shape
        call.answer({"a": object()})
        [(_, answer)] = scene.answers()
        said = answer["error"]["message"] if shape is None else answer["result"]["content"][0]["text"]
        assert said.startswith("internal error\nThis is a bug in understudy.")
        assert call.answered


async def test_an_error_whose_text_cannot_be_written_is_told_all_the_same(scene: Scene) -> None:
    for shape in (None, SESSION):
        call = scene.call()
        call.shape = shape or call.shape
        call.fail(AgentError("half a letter: \ud800"))
        [(_, answer)] = scene.answers()
        assert answer["id"] == 7
        assert answer["error"]["message"].startswith("internal error")


async def test_a_call_that_waits_when_the_server_ends_is_told_so_or_what_it_has_ready_for_that(scene: Scene) -> None:
    scene.call().server_ends()
    assert scene.answers() == [error(SERVER_ENDED, kind="agent_error")]
    call = scene.call()
    call.result_at_end = lambda: {"so": "far"}
    call.server_ends()
    assert scene.answers() == [result({"so": "far"})]


# -- which conversation it is about


async def test_who_looks_for_a_conversation_sees_what_another_process_has_just_written(scene: Scene, tmp_path: Path) -> None:
    async with EngineHere(tmp_path) as there:
        handle = await there.engine.create(LOCAL, Overrides(cwd=str(tmp_path)))
        await handle.durable()
        assert (await scene.client.find(handle.id)).facts.last_seq == 1
        handle._conversation.tail.append(Noticed("a"), turn="0")  # pyright: ignore[reportPrivateUsage]
        await handle.durable()
        assert (await scene.client.find(handle.id)).facts.last_seq == 2


# -- cancelling


async def test_a_cancellation_counts_once_and_also_where_it_came_before_anyone_asked_for_it(scene: Scene) -> None:
    heard: list[str] = []
    call = scene.call()
    call.when_cancelled(lambda: heard.append("now"))
    assert heard == []
    call.cancel()
    call.cancel()
    assert (heard, call.cancelled) == (["now"], True)
    early = scene.call()
    early.cancel()
    early.when_cancelled(lambda: heard.append("before"))
    assert heard == ["now", "before"]


async def test_a_call_that_was_answered_cannot_be_cancelled_unless_it_lasts(scene: Scene) -> None:
    heard: list[str] = []
    for lasts in (False, True):
        for answered_first in (False, True):
            call = scene.call()
            call.lasts = (lambda: True) if lasts else None
            if answered_first:
                call.answer(1)
            call.when_cancelled(lambda name=f"{lasts} {answered_first}": heard.append(name))
            if not answered_first:
                call.answer(1)
            call.cancel()
            assert call.cancelled
    assert heard == ["True False", "True True"]
