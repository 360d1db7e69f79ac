"""`/metrics` of the real server: the format that Prometheus reads, true numbers, and nothing of anybody's conversation."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.scenes import FORBIDDING
from tests.support.http_server import HttpClient, serving
from understudy.testing import HOLD, ScriptedModel, call, deltas, say
from understudy.testing.waiting import WAIT_SECONDS

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(client: HttpClient) -> Samples:
    response = await client.request("GET", path="/metrics")
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse((await response.body()).decode())


def parse(text: str) -> Samples:
    """As Prometheus' own client reads it. A sample that is told twice, or has no family, is an error."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram")
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, tuple(sorted(labels.items()))), 0)


async def until(client: HttpClient, name: str, wanted: float, **labels: str) -> Samples:
    async with asyncio.timeout(WAIT_SECONDS):
        while value(samples := await scrape(client), name, **labels) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return samples


async def test_a_turn_with_a_question_is_counted_and_nobody_is_named(tmp_path: Path) -> None:
    script = [call("shell", command=["touch", "secret-name.txt"]), say("all done")]
    async with ScriptedModel(script) as model, serving(tmp_path, model, config=FORBIDDING) as (server, client):
        await client.initialize()
        before = await scrape(client)
        assert value(before, "understudy_turns_started_total") == 0
        running = await client.call("codex", {"prompt": "a prompt that nobody else may read"})
        question: dict[str, Any] = {}
        async for event in running.events():
            if event.get("data") and event["data"].get("method") == "elicitation/create":
                question = event["data"]
                break
        waiting = await scrape(client)
        assert value(waiting, "understudy_questions_open") == 1
        assert value(waiting, "understudy_questions_total", kind="command") == 1
        assert value(waiting, "understudy_turns_running") == 1
        assert value(waiting, "understudy_calls_running") == 1
        assert value(waiting, "understudy_http_streams_open") == 1
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        async for _ in running.events():
            pass
        after = await until(client, "understudy_http_streams_open", 0)
        assert value(after, "understudy_turns_total", outcome="completed") == 1
        assert value(after, "understudy_turns_running") == value(after, "understudy_questions_open") == 0
        assert value(after, "understudy_calls_running") == 0
        assert value(after, "understudy_decisions_total", decision="approved", given_by="caller") == 1
        assert value(after, "understudy_tool_calls_total", tool="shell", outcome="success") == 1
        assert value(after, "understudy_mcp_requests_total", method="tools/call") == 1
        assert value(after, "understudy_conversations") == 1
        assert value(after, "understudy_store_bytes") > 4096
        assert value(after, "process_resident_memory_bytes") > 1 << 20
        assert value(after, "understudy_http_requests_total", method="POST", status="200") >= 2
        asked = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "mock", "gen_ai_request_model": model_of(model)}
        assert value(after, "gen_ai_client_operation_duration_seconds_count", error_type="", **asked) == 2
        assert value(after, "gen_ai_client_operation_time_to_first_chunk_seconds_count", **asked) == 2
        assert value(after, "understudy_store_commit_seconds_count") > 0
        page = (await (await client.request("GET", path="/metrics")).body()).decode()
        conversation = question["params"]["threadId"]
        for hidden in (conversation, "secret-name", "nobody else", server.token, str(tmp_path), "all done"):
            assert hidden not in page


def model_of(model: ScriptedModel) -> str:
    return model.requests[0]["model"]


@pytest.mark.slow
async def test_tokens_are_counted_as_the_provider_tells_them(tmp_path: Path) -> None:
    answer = say("hello", usage=(120, 7))
    async with ScriptedModel([answer]) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        await client.result("codex", {"prompt": "hi"})
        after = await until(client, "understudy_turns_total", 1, outcome="completed")
        assert value(after, "understudy_tokens_total", direction="input") == 120
        assert value(after, "understudy_tokens_total", direction="output") == 7
        labels = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "mock", "gen_ai_request_model": model_of(model)}
        assert value(after, "gen_ai_client_token_usage_sum", gen_ai_token_type="input", **labels) == 120
        assert value(after, "gen_ai_client_token_usage_sum", gen_ai_token_type="output", **labels) == 7


@pytest.mark.slow
async def test_a_token_without_any_right_is_enough_and_none_is_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        assert (await HttpClient(server.port, None).request("GET", path="/metrics")).status == 401
        assert (await HttpClient(server.port, "us_guessed-token-of-some-length").request("GET", path="/metrics")).status == 401
        poor = HttpClient(server.port, await server.add_token("prometheus", "--rights", ""))
        assert value(await scrape(poor), "understudy_turns_running") == 0
        assert (await poor.request("POST", path="/metrics")).status == 405
        head = await poor.request("HEAD", path="/metrics")
        assert (head.status, int(head.headers["content-length"]) > 0) == (200, True)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "status"), [("open", 200), ("off", 404)])
async def test_metrics_can_be_open_or_off(tmp_path: Path, setting: str, status: int) -> None:
    async with serving(tmp_path, config={"understudy.serve.metrics": setting}) as (server, client):
        assert (await HttpClient(server.port, None).request("GET", path="/metrics")).status == status
        assert (await client.request("GET", path="/metrics")).status == status


@pytest.mark.slow
async def test_names_that_callers_and_models_choose_cannot_fill_the_page(tmp_path: Path) -> None:
    """Another model in each call, another method in each request, and a tool that is not there: labels stay bounded."""
    script = [call("made_up_tool"), *[say("ok") for _ in range(121)]]
    async with ScriptedModel(script) as model, serving(tmp_path, model) as (_, client):
        await client.initialize()
        for number in range(121):
            await client.result("codex", {"prompt": "x", "model": f'model"\n\\{number}'})
            await client.post(f"made/up{number}")
            await client.request("PROPFIND")
        after = await scrape(client)
        durations = [dict(labels) for name, labels in after if name == "gen_ai_client_operation_duration_seconds_count"]
        models = {labels["gen_ai_request_model"] for labels in durations}
        assert len(models) == 101
        assert "other" in models
        assert value(after, "understudy_mcp_requests_total", method="other") == 121
        assert value(after, "understudy_http_requests_total", method="other", status="405") == 121
        assert value(after, "understudy_tool_calls_total", tool="other", outcome="failure") == 1


@pytest.mark.slow
async def test_a_turn_that_is_cut_off_and_its_request_are_told(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, serving(tmp_path, model) as (_, client):
        running = await client.modern("tools/call", {"name": "codex", "arguments": {"prompt": "x"}})
        await model.next_request(1)
        await until(client, "understudy_turns_running", 1)
        running.close()
        await until(client, "understudy_turns_total", 1, outcome="interrupted")
        asked = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "mock", "gen_ai_request_model": model_of(model)}
        await until(client, "gen_ai_client_operation_duration_seconds_count", 1, error_type="cancelled", **asked)
        model.release()
