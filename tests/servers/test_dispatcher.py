"""The dispatcher without a transport: every request is answered once, and every message says which request it belongs to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.connections import Connection, EngineHere, KeepingSink
from understudy.errors import AgentError, InvalidArguments
from understudy.protocol.callers import LOCAL
from understudy.servers.mcp import results
from understudy.servers.mcp.call import LATER, Call, Handler
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.tool_table import TOOLS, ClientTool
from understudy.servers.pipes import read_message
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

METHODS = ["initialize", "ping", "tools/list", "logging/setLevel", "tools/call", "resources/list", "", "notifications/cancelled"]
NAMES = [*TOOLS, "codexx", ""]
UNKNOWN = "67e55044-10b1-426f-9247-bb680e5fe0c8"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
argument_names = st.sampled_from(
    [
        "prompt",
        "threadId",
        "conversation_id",
        "content",
        "call_id",
        "decision",
        "limit",
        "cursor",
        "after",
        "cwd",
        "model",
        "config",
    ]
)
argument_values = json_values | st.sampled_from([UNKNOWN, "approved", 0, 1, [{"type": "text", "text": "x"}]])
tool_arguments = json_values | st.dictionaries(argument_names, argument_values, max_size=4)
tool_params = st.fixed_dictionaries({"name": st.sampled_from(NAMES), "arguments": tool_arguments}) | json_values
request_ids = st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)


def table(**handlers: Handler) -> Mapping[str, ClientTool]:
    return {name: ClientTool({"name": name}, lambda handler=handler: handler, results.STATUS) for name, handler in handlers.items()}


# -- exactly one answer


@given(
    requests=st.lists(st.tuples(request_ids, st.sampled_from(METHODS), tool_params), max_size=4, unique_by=lambda one: repr(one[0]))
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_request_is_answered_once_whatever_it_asks_for(tmp_path: Path, requests: list[tuple[int | str, str, Any]]) -> None:
    async def play() -> None:
        async with EngineHere(tmp_path) as here:
            connection = here.connect()
            for request_id, method, params in requests:
                connection.say({"id": request_id, "method": method, "params": params})
            connection.say({"id": "the last", "method": "ping"})
            await connection.sink.watched.until(lambda: connection.sink.answers_to("the last") or None, "the answer to a ping")
        for request_id, _, _ in requests:
            answers = connection.sink.answers_to(request_id)
            assert len(answers) == 1, answers
            assert ("result" in answers[0]) is not ("error" in answers[0])

    asyncio.run(play())


class Unwritable(AgentError):
    def __str__(self) -> str:
        return "half a character: \ud800"


@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (AgentError("as I say"), "as I say"),
        (InvalidArguments("not this"), "not this"),
        (ValueError("secret"), "internal error"),
        (RecursionError(), "internal error"),
        (Unwritable(), "internal error"),
        (asyncio.CancelledError(), "the server ended before this was done"),
        (TimeoutError(), "internal error"),
    ],
)
async def test_whatever_a_handler_raises_is_one_answer(
    tmp_path: Path, raised: BaseException, told: str, suspends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(call: Call) -> None:
        if suspends:
            await asyncio.sleep(0)
        raise raised

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(breaks=handler))
        request_id = connection.call("breaks")
        answer = await connection.answer(request_id)
        text = json.dumps(answer)
        assert told in text
        assert "secret" not in text
        connection.dispatcher.close()
        assert len(connection.sink.answers_to(request_id)) == 1


async def test_a_result_that_cannot_be_written_is_a_failure_that_can(tmp_path: Path) -> None:
    async def handler(call: Call) -> dict[str, Any]:
        return {"thing": object()}

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(breaks=handler))
        answer = await connection.ask("breaks")
        assert answer["isError"] is True
        assert answer["structuredContent"]["message"].startswith("internal error")


async def test_the_first_answer_counts_and_others_are_dropped(tmp_path: Path) -> None:
    async def handler(call: Call) -> dict[str, str]:
        call.answer({"status": "first"})
        call.answer({"status": "second"})
        call.fail(AgentError("third"))
        return {"status": "fourth"}

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(often=handler))
        request_id = connection.call("often")
        assert [one["result"]["structuredContent"] for one in connection.sink.answers_to(request_id)] == [{"status": "first"}]


async def test_a_call_that_nobody_has_answered_when_the_server_ends_is_told_so(tmp_path: Path) -> None:
    async def never(call: Call) -> Any:
        return LATER

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(never=never))
        request_id = connection.call("never")
        assert connection.sink.answers_to(request_id) == []
        connection.dispatcher.close()
        connection.dispatcher.close()
        answers = connection.sink.answers_to(request_id)
        assert [one["result"]["structuredContent"]["message"] for one in answers] == ["the server ended before this was done"]


# -- handlers that wait


async def test_a_handler_that_does_not_wait_answers_before_anything_else_happens(tmp_path: Path) -> None:
    async with EngineHere(tmp_path) as here:
        connection = here.connect()
        tasks = asyncio.all_tasks()
        for method in ("ping", "tools/list"):
            request_id = connection.request(method)
            assert len(connection.sink.answers_to(request_id)) == 1
        request_id = connection.call("conversationsList")
        assert len(connection.sink.answers_to(request_id)) == 1
        assert asyncio.all_tasks() == tasks


async def test_a_handler_that_waits_holds_up_nobody(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def waits(call: Call) -> dict[str, str]:
        await gate.wait()
        return {"status": "ok"}

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(waits=waits))
        slow = connection.call("waits")
        ping = connection.request("ping")
        assert (len(connection.sink.answers_to(slow)), len(connection.sink.answers_to(ping))) == (0, 1)
        gate.set()
        assert (await connection.answer(slow))["result"]["structuredContent"] == {"status": "ok"}


@pytest.mark.parametrize("early", [True, False])
async def test_a_cancellation_counts_also_while_the_handler_still_waits(tmp_path: Path, early: bool) -> None:
    gate, cancelled = asyncio.Event(), asyncio.Event()

    async def waits(call: Call) -> Any:
        if early:
            await gate.wait()
        call.when_cancelled(cancelled.set)
        return LATER

    async with EngineHere(tmp_path) as here:
        connection = here.connect(tools=table(waits=waits))
        request_id = connection.call("waits")
        connection.say({"method": "notifications/cancelled", "params": {"requestId": str(request_id)}})
        assert not cancelled.is_set(), "that is another id"
        connection.say({"method": "notifications/cancelled", "params": {"requestId": request_id}})
        gate.set()
        await asyncio.wait_for(cancelled.wait(), WAIT_SECONDS)


# -- which request a message belongs to


async def test_all_messages_of_a_call_name_it_and_its_answer_is_the_last(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with ScriptedModel(script) as model, EngineHere(tmp_path, model.url, config={"approval_policy": "untrusted"}) as here:
        connection = here.connect()
        arguments = {"prompt": "1", "cwd": str(tmp_path)}
        asking = connection.request("tools/call", {"name": "codex", "arguments": arguments, "_meta": {"progressToken": "p"}})
        question = await connection.message("elicitation/create")
        connection.say({"id": question["id"], "result": {"decision": "approved"}})
        await connection.answer(asking)
        assert {related for related, _ in connection.sink.kept} == {asking}
        methods = {message.get("method") for message in connection.sink.messages}
        assert {"codex/event", "elicitation/create", "notifications/progress", None} <= methods
        assert connection.sink.messages[-1]["id"] == asking


async def test_all_messages_of_a_stream_name_it(tmp_path: Path) -> None:
    async with ScriptedModel([say("done")]) as model, EngineHere(tmp_path, model.url) as here:
        connection = here.connect()
        created = await connection.ask("conversationCreate", cwd=str(tmp_path))
        conversation = created["structuredContent"]["conversation_id"]
        stream = connection.call("conversationStream", conversation_id=conversation)
        sent = connection.call("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "1"}])
        await connection.message("task_complete")
        related = {(related, "method" in message) for related, message in connection.sink.kept[1:]}
        assert related == {(stream, True), (stream, False), (sent, False)}


async def test_a_request_with_a_sink_of_its_own_is_answered_there_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "made"]), say("done")]
    async with ScriptedModel(script) as model, EngineHere(tmp_path, model.url, config={"approval_policy": "untrusted"}) as here:
        connection, own = here.connect(), KeepingSink()
        asking = connection.call("codex", own, prompt="1", cwd=str(tmp_path))

        def question() -> dict[str, Any] | None:
            return next((one for one in own.messages if one.get("method") == "elicitation/create"), None)

        asked = await own.watched.until(question, "a question")
        connection.say({"id": asked["id"], "result": {"decision": "approved"}})
        await own.watched.until(lambda: own.answers_to(asking) or None, "the answer")
        assert connection.sink.kept == []
        assert {related for related, _ in own.kept} == {asking}


# -- several clients of one engine


async def test_two_clients_of_one_engine_have_ids_and_questions_of_their_own(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "a"]), call("shell", command=["touch", "b"]), say("done"), say("done")]
    async with ScriptedModel(script) as model, EngineHere(tmp_path, model.url, config={"approval_policy": "untrusted"}) as here:
        clients = [here.connect(), here.connect()]
        calls = [one.call("codex", prompt="1", cwd=str(tmp_path)) for one in clients]
        assert calls == [1, 1]
        questions = [await one.message("elicitation/create") for one in clients]
        assert [one["id"] for one in questions] == [0, 0]
        for one, question in zip(clients, questions, strict=True):
            one.say({"id": question["id"], "result": {"decision": "approved"}})
        for one, request_id in zip(clients, calls, strict=True):
            assert (await one.answer(request_id))["result"]["structuredContent"]["content"] == "done"
            assert len(one.sink.answers_to(request_id)) == 1


async def test_a_client_that_is_gone_leaves_the_turn_to_those_who_come(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["one", HOLD])]) as model, EngineHere(tmp_path, model.url) as here:
        gone = here.connect()
        gone.call("codex", prompt="1", cwd=str(tmp_path))
        await gone.message("codex/event", 3)
        gone.sink.closed = True
        gone.dispatcher.close()
        comes = here.connect()
        listed = await comes.ask("conversationsList")
        [row] = listed["structuredContent"]["conversations"]
        assert row["status"] == "running"
        comes.call("conversationStream", conversation_id=row["conversation_id"])
        model.release()
        await comes.message("task_complete")


async def test_a_client_that_is_gone_follows_nothing_any_more(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two")]) as model, EngineHere(tmp_path, model.url) as here:
        gone, stays = here.connect(), here.connect()
        created = await gone.ask("conversationCreate", cwd=str(tmp_path), prompt="1")
        conversation = created["structuredContent"]["conversation_id"]
        for one in (gone, stays):
            one.call("conversationStream", conversation_id=conversation)
            await one.message("notifications/initial_state")
        gone.dispatcher.close()
        said = len(gone.sink.messages)
        await stays.ask("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "2"}])
        await stays.sink.watched.until(lambda: "two" in str(stays.sink.messages) or None, "the answer to the second message")
        assert len(gone.sink.messages) == said


async def test_a_message_that_was_held_can_be_cancelled_until_its_turn_is_over_and_no_longer(tmp_path: Path) -> None:
    script = [call("shell", command=["sleep", "60"], timeout=100_000), say("two")]
    config = {"sandbox_mode": "danger-full-access"}
    async with ScriptedModel(script) as model, EngineHere(tmp_path, model.url, config=config) as here:
        connection: Connection = here.connect()
        created = await connection.ask("conversationCreate", cwd=str(tmp_path))
        conversation = created["structuredContent"]["conversation_id"]
        connection.call("conversationStream", conversation_id=conversation)
        connection.call("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "1"}])
        await connection.message("exec_command_begin")
        connection.call("conversationInterrupt", conversation_id=conversation)
        held = connection.call("conversationSendMessage", conversation_id=conversation, content=[{"type": "text", "text": "2"}])
        remembered = connection.dispatcher._cancellable  # pyright: ignore[reportPrivateUsage]
        lasts = remembered[held].lasts
        assert lasts is not None
        assert lasts(), "its turn has not begun"
        await connection.answer(held)
        await connection.message("task_complete", 2)
        assert not lasts()


async def test_a_client_may_introduce_itself_once(tmp_path: Path) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with EngineHere(tmp_path) as here:
        sink = KeepingSink()
        dispatcher = Dispatcher(here.engine, LOCAL, sink)
        for request_id in (1, 2):
            line = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params})
            dispatcher.receive(read_message(line.encode()))
        assert sink.messages[0]["result"]["protocolVersion"] == "2025-11-25"
        assert sink.messages[1]["error"]["message"] == "initialize called more than once"


async def test_requests_that_are_over_are_not_remembered(tmp_path: Path) -> None:
    async with EngineHere(tmp_path) as here:
        connection: Connection = here.connect()
        created = await connection.ask("conversationCreate", cwd=str(tmp_path))
        conversation = created["structuredContent"]["conversation_id"]
        for _ in range(500):
            connection.call("conversationStream", conversation_id=conversation)
        assert len(connection.dispatcher._cancellable) <= 65  # pyright: ignore[reportPrivateUsage]
