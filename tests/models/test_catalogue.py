"""Asking a provider for its models, over real HTTP."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.loopback import HANG, Loopback, loopback, status
from understudy.errors import MissingKey, ModelError
from understudy.models.auth import Credentials
from understudy.models.catalogue import ListedModel, ask_models, read_models
from understudy.models.prices import Price
from understudy.models.providers import Provider, WireApi
from understudy.net import HttpClient

KEY = "sk-secret-12345678"


async def asked(server: Loopback, *, wire: WireApi = "chat", seconds: float = 5.0, **fields: Any) -> list[ListedModel]:
    http = HttpClient({}, connect_seconds=5.0)
    try:
        provider = Provider("mock", "Mock", server.url, wire_api=wire, env_key="MOCK_KEY", **fields)
        return await ask_models(provider, Credentials({"MOCK_KEY": KEY}, Path("nowhere")), http, seconds)
    finally:
        await http.aclose()


@pytest.mark.parametrize(
    ("body", "listed"),
    [
        ({"object": "list", "data": [{"id": "gpt-5", "object": "model"}]}, ListedModel("gpt-5")),
        (
            {"data": [{"type": "model", "id": "claude-x", "display_name": "X", "max_input_tokens": 5000, "max_tokens": 100}]},
            ListedModel("claude-x", 5000, 100),
        ),
        (
            {"data": [{"id": "a/b", "context_length": 9, "pricing": {"prompt": "0.000002", "completion": "0.00001"}}]},
            ListedModel("a/b", 9, None, Price(2.0, None, 10.0, source="provider")),
        ),
        ({"data": [{"id": "served", "max_model_len": 4096}]}, ListedModel("served", 4096)),
        ({"models": [{"name": "models/gemini-x"}]}, ListedModel("gemini-x")),
        ({"data": [{"id": "llama", "meta": {"n_ctx_train": 2048}}]}, ListedModel("llama", 2048)),
    ],
)
async def test_each_providers_list_is_understood(body: Any, listed: ListedModel) -> None:
    async with loopback(status(200, "OK", json.dumps(body))) as server:
        assert await asked(server) == [listed]
    request = server.requests[0]
    assert (request.method, request.target, request.headers["authorization"]) == ("GET", "/v1/models", f"Bearer {KEY}")


async def test_anthropic_is_asked_with_its_own_headers() -> None:
    async with loopback(status(200, "OK", '{"data":[]}')) as server:
        assert await asked(server, wire="anthropic", http_headers={"X-More": "yes"}) == []
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"], headers["x-more"]) == (KEY, "2023-06-01", "yes")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(401, "Unauthorized", json.dumps({"error": {"message": f"bad key {KEY}"}})), "401: bad key"),
        (status(200, "OK", "<html>"), "did not answer with a list of models"),
        (status(200, "OK", '{"data": 3}'), "did not answer with a list of models"),
        (status(500, "Oops"), "status 500"),
    ],
)
async def test_an_answer_that_is_no_list_is_told_without_the_key(answer: Any, words: str) -> None:
    async with loopback(answer) as server:
        with pytest.raises(ModelError, match=words) as caught:
            await asked(server)
    assert KEY not in str(caught.value)


async def test_a_provider_that_does_not_answer_is_not_waited_for() -> None:
    async with loopback([HANG]) as server:
        with pytest.raises(ModelError, match=r"did not answer within|no answer|silent|0\.1"):
            await asked(server, seconds=0.1)


async def test_a_missing_key_is_told_before_anything_is_sent() -> None:
    http = HttpClient({})
    with pytest.raises(MissingKey):
        await ask_models(Provider("m", "M", "http://127.0.0.1:9/v1", env_key="NONE"), Credentials({}, Path("nowhere")), http, 1.0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "data", "models", "pricing", "prompt", "meta"]), inner),
)


@given(json_values)
@pytest.mark.slow
def test_no_answer_of_a_provider_is_more_than_a_list_or_a_refusal(value: Any) -> None:
    with suppress(ValueError):
        assert all(listed.id for listed in read_models(value))
