"""A model that is in no table: its server is asked how much it can read, and nobody waits for that."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.contexts import shown
from tests.e2e.scenes import text_of, thread_of
from understudy.testing import McpProcess, ScriptedModel, hang, say, status
from understudy.testing.model import ReceivedRequest
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

ASK = "Sum it up in our words."
LISTED = status(200, {"data": [{"id": "of-our-own", "max_model_len": 4000}]})


def played(looked_up: Entry) -> Callable[[ReceivedRequest], Entry]:
    """A server that answers any message, and counts 3,700 tokens of each; `looked_up` is what it says of its models."""

    def answer(request: ReceivedRequest) -> Entry:
        if request.body is None:
            return looked_up
        return say("SUMMARY", usage=(300, 5)) if _asks(request) else say("answer", usage=(3695, 5))

    return answer


def _asks(request: ReceivedRequest) -> bool:
    return request.body is not None and shown(request.body)[-1] == ("user", ASK)


@asynccontextmanager
async def server(folder: Path, looked_up: Entry, **settings: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    async with ScriptedModel(played(looked_up)) as model:
        config = {
            "model": "of-our-own",
            "model_provider": "vllm",
            "model_providers.vllm.base_url": model.url,
            "compact_prompt": ASK,
            "approval_policy": "never",
            **settings,
        }
        async with McpProcess(cwd=folder, home=folder / "home", config=config) as client:
            yield model, client


def asked_for(model: ScriptedModel) -> list[str]:
    return [request.path for request in model.received if request.body is None]


async def test_a_conversation_is_compacted_by_what_the_server_says(tmp_path: Path) -> None:
    async with server(tmp_path, LISTED) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(_asks(request) for request in model.received):  # as soon as the server's word is known
                assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="more")) == "answer"
        assert model.received[0].body is not None, "the first request was not waited with"
        assert asked_for(model) == ["/v1/models"], "once for all of them"
        told = client.events()[-1]
        assert told["type"] == "task_complete"


async def test_a_server_that_does_not_answer_that_holds_nothing_up(tmp_path: Path) -> None:
    async with server(tmp_path, hang()) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        for _ in range(3):
            assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="more")) == "answer"
        assert not any(_asks(request) for request in model.received)
        assert asked_for(model) in ([], ["/v1/models"])


@pytest.mark.slow
@pytest.mark.parametrize("answer", [status(500, "oops"), status(200, "<html>"), status(200, json.dumps({"data": []}))])
async def test_one_that_cannot_say_it_leaves_all_as_it_was(tmp_path: Path, answer: Any) -> None:
    async with server(tmp_path, answer) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        async with asyncio.timeout(WAIT_SECONDS):
            while not asked_for(model):
                await client.call_tool("codex-reply", threadId=thread, prompt="more")
        for _ in range(3):
            assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="more")) == "answer"
        assert asked_for(model) == ["/v1/models"], "and not again and again"
        assert not any(_asks(request) for request in model.received)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"model_context_window": 100_000}, {"model": "gpt-oss-20b"}])
async def test_where_the_window_is_known_nobody_is_asked(tmp_path: Path, settings: Any) -> None:
    async with server(tmp_path, LISTED, **settings) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        await client.call_tool("codex-reply", threadId=thread, prompt="more")
    assert asked_for(model) == []


@pytest.mark.slow
async def test_a_provider_of_ones_own_is_not_asked(tmp_path: Path) -> None:
    async with ScriptedModel([say("one"), say("two")]) as model, McpProcess(model.url, cwd=tmp_path) as client:
        thread = thread_of(await client.call_tool("codex", prompt="first"))
        await client.call_tool("codex-reply", threadId=thread, prompt="more")
    assert asked_for(model) == []
