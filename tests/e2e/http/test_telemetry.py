"""Traces and metrics of the real server, as a collector gets them from the real SDK by OTLP over HTTP."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING
from tests.support.collector import Collector, SpanSeen
from tests.support.http_server import HttpClient, HttpServer
from understudy.testing import HOLD, ScriptedModel, call, deltas, say, status
from understudy.testing.waiting import WAIT_SECONDS

TRACE = "0af7651916cd43dd8448eb211c80319c"
OTHER_TRACE = "1bf7651916cd43dd8448eb211c80319d"
SPAN = "b7ad6b7169203331"
PROMPT = "a prompt that nobody else may read"
SERVER, INTERNAL, CLIENT = 2, 1, 3


def parent(trace: str, flags: str = "01") -> str:
    return f"00-{trace}-{SPAN}-{flags}"


def only(spans: list[SpanSeen]) -> SpanSeen:
    (span,) = spans
    return span


def has_all_numbers(collector: Collector) -> bool:
    """Numbers are collected one after the other while the turn goes on, so that some may be of an earlier moment than others."""
    asked = sum(count for _, _, count in collector.metrics.get("gen_ai.client.operation.duration", ()))
    used = len(collector.metrics.get("gen_ai.client.token.usage", ()))
    others = {"gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration", "mcp.server.operation.duration"}
    return (asked, used) == (2, 2) and others <= set(collector.metrics)


async def test_a_request_its_turn_and_what_the_turn_does_are_one_trace(tmp_path: Path) -> None:
    """The parent that `_meta` names is the caller's own span; the header's is of the HTTP request that carries it."""
    script = [call("shell", command=["touch", "hidden-name.txt"]), say("an answer for one alone", usage=(120, 7))]
    async with (
        Collector() as collector,
        ScriptedModel(script) as model,
        HttpServer(tmp_path, model, config=FORBIDDING, env={**collector.env, "OTEL_SERVICE_NAME": "team-agent"}) as server,
    ):
        client = HttpClient(server.port, server.token)
        await client.initialize()
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
        params = {"name": "codex", "arguments": {"prompt": PROMPT}, "_meta": {"traceparent": parent(TRACE)}}
        running = await client.send({**message, "params": params}, traceparent=parent(OTHER_TRACE))
        thread = ""
        async for event in running.events():
            asked: dict[str, Any] = event.get("data") or {}
            if asked.get("method") == "elicitation/create":
                thread = asked["params"]["threadId"]
                await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
        await collector.wait_for(lambda seen: bool(seen.named("tools/call codex")) and bool(seen.named("invoke_agent understudy")))
        request, turn = only(collector.named("tools/call codex")), only(collector.named("invoke_agent understudy"))
        tool, chats = only(collector.named("execute_tool shell")), collector.named("chat mock-model")
        assert {span.trace_id for span in (request, turn, tool, *chats)} == {TRACE}
        assert (request.parent, turn.parent, tool.parent) == (SPAN, request.id, turn.id)
        assert [span.parent for span in chats] == [turn.id, turn.id]
        assert (request.kind, turn.kind, tool.kind, chats[0].kind) == (SERVER, INTERNAL, INTERNAL, CLIENT)
        assert not any(span.failed for span in (request, turn, tool, *chats))
        assert request.attributes["mcp.method.name"] == "tools/call"
        assert request.attributes["gen_ai.tool.name"] == "codex"
        assert request.attributes["http.response.status_code"] == 200
        assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
        assert turn.attributes["gen_ai.conversation.id"] == chats[0].attributes["gen_ai.conversation.id"] == thread
        assert turn.attributes["understudy.turn.outcome"] == "completed"
        assert chats[0].attributes["gen_ai.operation.name"] == "chat"
        assert chats[0].attributes["gen_ai.provider.name"] == "mock"
        assert chats[1].attributes["gen_ai.request.model"] == "mock-model"
        assert (chats[1].attributes["gen_ai.usage.input_tokens"], chats[1].attributes["gen_ai.usage.output_tokens"]) == (120, 7)
        assert tool.attributes["gen_ai.tool.call.id"] == "call1"
        assert tool.events == ["understudy.question_asked", "understudy.question_answered"]
        assert turn.resource["service.name"] == "team-agent"
        assert all(span.ended >= span.began for span in collector.spans)
        # and the same in numbers
        await collector.wait_for(has_all_numbers)
        labels = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "mock", "gen_ai.request.model": "mock-model"}
        usage = {point[0]["gen_ai.token.type"]: point for point in collector.metrics["gen_ai.client.token.usage"]}
        assert usage["input"] == ({**labels, "gen_ai.token.type": "input"}, 120, 1)
        assert usage["output"][1:] == (7, 1)
        ((found, _, count),) = collector.metrics["gen_ai.client.operation.duration"]
        assert (found, count) == (labels, 2)
        ((found, _, count),) = collector.metrics["gen_ai.execute_tool.duration"]
        assert (found, count) == ({"gen_ai.tool.name": "shell"}, 1)
        assert "mcp.server.operation.duration" in collector.metrics
        assert await server.stop() == 0
        for hidden in (PROMPT, "for one alone", "hidden-name", server.token, client.session or "?"):
            assert hidden.encode() not in collector.raw


@pytest.mark.slow
async def test_the_header_names_the_parent_where_the_message_does_not_and_nonsense_names_none(tmp_path: Path) -> None:
    async with (
        Collector() as collector,
        ScriptedModel([say("one"), say("two"), say("three")]) as model,
        HttpServer(tmp_path, model, env=collector.env) as server,
    ):
        client = HttpClient(server.port, server.token)
        arguments = {"name": "codex", "arguments": {"prompt": "x"}}
        await (await client.modern("tools/call", arguments, {"traceparent": parent(TRACE)})).messages()
        await (await client.modern("tools/call", arguments, {"traceparent": "00-zz-yy-xx"}, meta={"traceparent": [7]})).messages()
        await (await client.modern("tools/call", arguments, {"traceparent": parent(OTHER_TRACE, "00")})).messages()
        await collector.wait_for(lambda seen: len(seen.named("tools/call codex")) == 2)
        named, unnamed = collector.named("tools/call codex")
        assert (named.trace_id, named.parent) == (TRACE, SPAN)
        assert (unnamed.trace_id != TRACE, unnamed.parent) == (True, "")
        assert await server.stop() == 0
        assert OTHER_TRACE not in {span.trace_id for span in collector.spans}, "whoever asked for no trace gets none"


@pytest.mark.slow
async def test_failed_and_interrupted_turns_are_told_as_such_and_a_joining_message_is_linked(tmp_path: Path) -> None:
    script = [status(400, "no such thing"), deltas(["a", HOLD, "b"])]
    async with (
        Collector() as collector,
        ScriptedModel(script) as model,
        HttpServer(tmp_path, model, env=collector.env) as server,
    ):
        client = HttpClient(server.port, server.token)
        await client.initialize()
        await client.result("codex", {"prompt": "x"})
        await collector.wait_for(lambda seen: bool(seen.named("invoke_agent understudy")))
        assert only(collector.named("invoke_agent understudy")).failed
        assert only(collector.named("chat mock-model")).attributes["error.type"] == "model_refused"
        made = (await client.result("conversationCreate", {"prompt": "x"}))["structuredContent"]
        thread = made["conversation_id"]
        await model.next_request(2)
        content = [{"type": "text", "text": "and this"}]
        await client.result("conversationSendMessage", {"conversation_id": thread, "content": content})
        await client.result("conversationInterrupt", {"conversation_id": thread})
        model.release()
        await collector.wait_for(lambda seen: len(seen.named("invoke_agent understudy")) == 2)
        await collector.wait_for(lambda seen: len(seen.named("chat mock-model")) == 2)
        turn = collector.named("invoke_agent understudy")[1]
        assert (turn.attributes["understudy.turn.outcome"], turn.failed) == ("interrupted", False)
        assert collector.named("chat mock-model")[1].attributes["error.type"] == "cancelled"
        await collector.wait_for(lambda seen: bool(seen.named("tools/call conversationSendMessage")))
        assert turn.links == [only(collector.named("tools/call conversationSendMessage")).id]
        assert turn.parent == only(collector.named("tools/call conversationCreate")).id


@pytest.mark.slow
async def test_a_collector_that_is_not_there_holds_up_nothing(tmp_path: Path) -> None:
    async with Collector() as collector:
        env = collector.env
    async with ScriptedModel([say("done")]) as model, HttpServer(tmp_path, model, env=env) as server:
        client = HttpClient(server.port, server.token)
        await client.initialize()
        assert (await client.result("codex", {"prompt": "x"}))["structuredContent"]["content"] == "done"
        async with asyncio.timeout(WAIT_SECONDS):
            assert await server.stop() == 0
        server.stderr = server.stderr.replace("Traceback", "")  # the exporter tells of its trouble as it likes


@pytest.mark.slow
async def test_only_what_can_be_spoken_is_tried(tmp_path: Path) -> None:
    async with Collector() as collector:
        env = {**collector.env, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        async with HttpServer(tmp_path, env=env) as server:
            await server.until_told("only `http/protobuf` is spoken here")


LOADED = """
import sys
from understudy.servers.process.telemetry_export import start_telemetry
assert start_telemetry({}) is None
assert start_telemetry({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}) is None
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
MISSING = """
import sys
for name in ("opentelemetry.sdk", "opentelemetry.exporter"):
    sys.modules[name] = None
import logging
logging.basicConfig(stream=sys.stdout)
from understudy.servers.process.telemetry_export import start_telemetry
assert start_telemetry({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}) is None
"""


@pytest.mark.parametrize(("program", "said"), [(LOADED, "[]\n"), (MISSING, "uv tool install '.[telemetry]'")])
async def test_without_a_collector_or_the_extra_nothing_is_loaded(program: str, said: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    out, _ = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert (process.returncode, said in out.decode()) == (0, True), out.decode()
