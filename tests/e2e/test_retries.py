"""What is tried again, and how often: requests quietly, then the whole answer with a word to whoever watches."""

import re
from pathlib import Path

import pytest

from tests.e2e.scenes import answered, kinds, scene, text_of, thread_of
from understudy.testing import say, status

WIRES = pytest.mark.parametrize("wire", ["chat", "responses"])
ONCE_EACH = {"model_providers.mock.request_max_retries": 1, "model_providers.mock.stream_max_retries": 1}


@WIRES
@pytest.mark.parametrize(
    ("code", "phrase"), [(500, "Internal Server Error"), (503, "Service Unavailable"), (429, "Too Many Requests")]
)
@pytest.mark.quick(1)
async def test_a_status_that_outlasts_the_requests_retries_is_asked_again_with_a_word(
    tmp_path: Path, wire: str, code: int, phrase: str
) -> None:
    busy = status(code, '{"error":{"message":"boom"}}', {"Retry-After": "0"})
    async with scene([busy, busy, say("ok")], tmp_path, wire=wire, config=ONCE_EACH) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        result = await call_
        assert result == answered("ok", thread_of(result))
        [notice] = [event["message"] for event in client.events(call_) if event["type"] == "background_event"]
        expected = rf"stream error: exceeded retry limit, last status: {code} {phrase}; retrying 1/1 in \d+ms…"
        assert re.fullmatch(expected, notice)
        assert len(model.requests) == 3


@pytest.mark.quick(1)
@WIRES
async def test_after_the_last_retry_the_turn_fails_with_status_words_and_a_hint(tmp_path: Path, wire: str) -> None:
    busy = status(500, '{"error":{"message":"boom"}}')
    async with scene([busy] * 4, tmp_path, wire=wire, config=ONCE_EACH) as (_, client):
        call_ = client.call_tool("codex", prompt="go")
        result = await call_
        assert text_of(result) == (
            "exceeded retry limit, last status: 500 Internal Server Error: boom\n"
            "Mock provider (model provider `mock`) fails at present. Try again later, or set `model_provider` to another."
        )
        assert kinds(client.events(call_)) == ["session_configured", "task_started", "background_event", "error", "task_complete"]


@pytest.mark.slow
async def test_a_server_that_has_answered_is_asked_again_when_it_is_dead_and_then_named(tmp_path: Path) -> None:
    async with scene([say("hi")], tmp_path, config=ONCE_EACH) as (model, client):
        await client.call_tool("codex", prompt="go")
        await model.kill()
        call_ = client.call_tool("codex", prompt="go")
        told, hint = text_of(await call_).split("\n")
        assert told == f"cannot connect to {model.url}/chat/completions: connection refused"
        assert hint.startswith("Nothing listens there. Is the server of Mock provider (model provider `mock`) running")
        [notice] = [event["message"] for event in client.events(call_) if event["type"] == "background_event"]
        assert notice.startswith(f"stream error: {told}; retrying 1/1 in ")
