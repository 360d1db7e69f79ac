"""Asking a server how much its model can read, over real HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.loopback import loopback, status
from understudy.config.providers import BUILT_IN
from understudy.errors import ModelError
from understudy.models.auth import Credentials
from understudy.models.catalogue import ask_window, read_window
from understudy.models.providers import Provider
from understudy.net import HttpClient

OLLAMA = {"models": [{"name": "tiny:latest", "model": "tiny:latest", "context_length": 4096}]}
PROPS = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}
TWO = {"data": [{"id": "big", "context_length": 90_000}, {"id": "tiny", "context_length": 7_000}]}


async def asked(provider: str, *answers: Any, suffix: str = "") -> tuple[int | None, list[str]]:
    """The window, and what was asked for."""
    http = HttpClient({}, connect_seconds=5.0)
    async with loopback(*answers) as server:
        try:
            found = Provider(provider, "Mock", server.url + suffix)
            window = await ask_window(found, "tiny", Credentials({}, Path("nowhere")), http, 5.0)
        finally:
            await http.aclose()
    return window, [f"{request.method} {request.target}" for request in server.requests]


def ok(body: Any) -> Any:
    return status(200, "OK", json.dumps(body))


@pytest.mark.parametrize(
    ("provider", "body", "window", "target"),
    [
        ("openrouter", TWO, 7_000, "GET /v1/models"),
        ("vllm", {"data": [{"id": "served", "max_model_len": 16_384}]}, 16_384, "GET /v1/models"),
        ("llamacpp", PROPS, 8_192, "GET /props"),
        (
            "lmstudio",
            {"data": [{"id": "tiny", "max_context_length": 32_768, "loaded_context_length": 4_096}]},
            4_096,
            "GET /api/v0/models",
        ),
        ("ollama", OLLAMA, 4_096, "GET /api/ps"),
        ("oss", OLLAMA, 4_096, "GET /api/ps"),
    ],
)
async def test_each_server_is_asked_where_it_tells(provider: str, body: Any, window: int, target: str) -> None:
    assert await asked(provider, ok(body)) == (window, [target])


async def test_a_server_without_a_face_of_its_own_is_asked_for_its_models() -> None:
    listed = ok({"data": [{"id": "tiny", "meta": {"n_ctx_train": 2048}}]})
    for refused in (status(404, "Not Found"), ok({"default_generation_settings": {}}), status(200, "OK", "<html>")):
        assert await asked("llamacpp", refused, listed) == (2048, ["GET /props", "GET /v1/models"])


async def test_the_query_of_an_address_goes_along() -> None:
    assert await asked("llamacpp", ok(PROPS), suffix="?tenant=7") == (8_192, ["GET /props?tenant=7"])


async def test_where_it_does_not_say_nothing_is_known() -> None:
    assert await asked("vllm", ok(TWO | {"data": [{"id": "other"}, {"id": "another"}]})) == (None, ["GET /v1/models"])
    assert await asked("ollama", ok({"models": []})) == (None, ["GET /api/ps"])
    assert await asked("openai") == (None, [])
    with pytest.raises(ModelError):
        await asked("vllm", status(500, "Oops"))


def test_only_servers_that_tell_it_are_asked() -> None:
    assert {row.id for row in BUILT_IN if row.window_at} == {"openrouter", "vllm", "llamacpp", "lmstudio", "ollama", "oss"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from(["data", "models", "id", "context_length", "default_generation_settings", "n_ctx", "meta"])


@given(ANYTHING | st.dictionaries(NAMES, ANYTHING | st.lists(st.dictionaries(NAMES, ANYTHING), max_size=2)))
def test_whatever_a_server_says_a_window_is_a_number_or_not_known(told: Any) -> None:
    window = read_window(told, "tiny")
    assert window is None or 0 < window <= 10**9
