"""Provider tables: the built-in ones, those of users, and what is said of a wrong one."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.models.loopback import built_in, delta, loopback, opened, stream
from understudy.config.providers import BUILT_IN, OPENAI_URL
from understudy.errors import ConfigError
from understudy.models.http_model import request_url
from understudy.models.providers import Provider, find_provider, provider_from_table


def test_the_built_in_providers_follow_the_environment() -> None:
    openai, oss = built_in("openai"), built_in("oss")
    assert openai.base_url == "https://api.openai.com/v1"
    assert (openai.wire_api, openai.requires_openai_auth) == ("responses", True)
    assert (oss.base_url, oss.wire_api) == ("http://localhost:11434/v1", "chat")
    moved = {"OPENAI_BASE_URL": "http://here/v1", "CODEX_OSS_PORT": "99"}
    assert (built_in("openai", moved).base_url, built_in("oss", moved).base_url) == ("http://here/v1", "http://localhost:99/v1")
    named = {"CODEX_OSS_BASE_URL": "http://there/v1", "OPENAI_BASE_URL": " "}
    assert (built_in("oss", named).base_url, built_in("openai", named).base_url) == ("http://there/v1", OPENAI_URL)


@pytest.mark.parametrize(
    ("provider", "variable", "value", "address"),
    [
        ("anthropic", "ANTHROPIC_BASE_URL", "http://h:1", "http://h:1/v1"),
        ("anthropic", "ANTHROPIC_BASE_URL", "http://h:1/v1/", "http://h:1/v1"),
        ("azure", "AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com/", "https://me.openai.azure.com/openai/v1"),
        ("ollama", "OLLAMA_HOST", "0.0.0.0", "http://localhost:11434/v1"),
        ("ollama", "OLLAMA_HOST", "box:99", "http://box:99/v1"),
        ("ollama", "OLLAMA_HOST", "https://box", "https://box:11434/v1"),
    ],
)
def test_an_address_from_the_environment_is_completed(provider: str, variable: str, value: str, address: str) -> None:
    assert built_in(provider, {variable: value}).base_url == address


def test_a_provider_whose_address_nobody_knows_says_how_to_give_it() -> None:
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        find_provider("azure", {}, {})
    table = {"azure": {"base_url": "https://me.openai.azure.com/openai/v1"}}
    assert find_provider("azure", table, {}).key_header == "api-key"


def test_a_table_of_ones_own_under_the_name_of_a_built_in_provider_stands_for_itself() -> None:
    """People had such tables before the name was built in."""
    whole = {"anthropic": {"name": "Proxy", "base_url": "http://h/v1"}}
    assert find_provider("anthropic", whole, {}) == Provider("anthropic", "Proxy", "http://h/v1")
    part = {"anthropic": {"base_url": "http://h/v1"}}
    assert (find_provider("anthropic", part, {}).wire_api, find_provider("anthropic", part, {}).name) == ("anthropic", "Anthropic")


def test_the_pages_name_the_built_in_providers() -> None:
    docs = Path(__file__).parents[2] / "docs"
    row = next(line for line in (docs / "configuration.md").read_text().splitlines() if line.startswith("| `model_provider` "))
    assert re.findall(r"`([a-z]+)`", row.partition("|")[2].partition("| text |")[2])[0] == "openai"
    listed = re.findall(r"^\| `([a-z]+)` \| [^|]+ \| ([a-z]+) \| ([^|]+) \| `([^`]+)` \|", (docs / "models.md").read_text(), re.M)
    assert [(name, wire, default) for name, wire, _, default in listed] == [
        (row.id, row.wire_api, row.default_model) for row in BUILT_IN if row.id not in ("scripted", "replay")
    ]


def test_a_table_may_set_every_field() -> None:
    table = {
        "name": "Mine",
        "base_url": "https://host/v1/",
        "env_key": "KEY",
        "env_key_instructions": "Set it.",
        "wire_api": "responses",
        "query_params": {"api-version": "1"},
        "http_headers": {"X-Fixed": "yes"},
        "env_http_headers": {"X-Env": "VARIABLE"},
        "request_max_retries": 1000,
        "stream_max_retries": 2,
        "stream_idle_timeout_ms": 500,
        "requires_openai_auth": True,
        "some_future_key": object(),
    }
    assert provider_from_table("mine", table) == Provider(
        id="mine",
        name="Mine",
        base_url="https://host/v1/",
        env_key="KEY",
        env_key_instructions="Set it.",
        wire_api="responses",
        query_params={"api-version": "1"},
        http_headers={"X-Fixed": "yes"},
        env_http_headers={"X-Env": "VARIABLE"},
        request_max_retries=100,
        stream_max_retries=2,
        stream_idle_timeout_ms=500,
        requires_openai_auth=True,
    )


def test_what_a_table_leaves_out_has_its_default() -> None:
    provider = provider_from_table("mine", {"name": "Mine"})
    assert (provider.wire_api, provider.request_max_retries, provider.stream_max_retries) == ("chat", 4, 5)
    assert (provider.stream_idle_timeout_ms, provider.requires_openai_auth, provider.env_key) == (300_000, False, None)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("text", r"`model_providers\.mine` must be a table"),
        ({}, r"`model_providers\.mine\.name` is missing"),
        ({"name": 1}, r"`model_providers\.mine\.name` must be a string"),
        ({"name": "x", "wire_api": "grpc"}, r"`model_providers\.mine\.wire_api` must be one of responses, chat, anthropic"),
        ({"name": "x", "wire_api": ["chat"]}, r"\.wire_api` must be"),
        ({"name": "x", "request_max_retries": -1}, r"\.request_max_retries` must be a whole number"),
        ({"name": "x", "stream_max_retries": True}, r"\.stream_max_retries` must be a whole number"),
        ({"name": "x", "stream_idle_timeout_ms": 0}, r"\.stream_idle_timeout_ms` must be .* above zero"),
        ({"name": "x", "http_headers": {"X": 1}}, r"\.http_headers\.X` must be a string"),
        ({"name": "x", "http_headers": {"X": "a\r\nEvil: 1"}}, r"\.http_headers\.X` cannot be sent"),
        ({"name": "x", "http_headers": {"X Y": "a"}}, r"\.http_headers\.X Y` cannot be sent"),
        ({"name": "x", "query_params": "a=b"}, r"\.query_params` must be a table of strings"),
        ({"name": "x", "base_url": "host/v1"}, r"\.base_url` is not a URL"),
        ({"name": "x", "base_url": "ftp://host/v1"}, r"\.base_url` must begin with http"),
        ({"name": "x", "requires_openai_auth": "yes"}, r"\.requires_openai_auth` must be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(table: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        provider_from_table("mine", table)


def test_providers_are_found_by_their_id() -> None:
    tables = {"mine": {"name": "Mine"}, "openai": {"base_url": "http://gateway/v1"}}
    assert find_provider("mine", tables, {}).name == "Mine"
    changed = find_provider("openai", tables, {})
    assert (changed.base_url, changed.name, changed.wire_api) == ("http://gateway/v1", "OpenAI", "responses")
    with pytest.raises(ConfigError, match=r"^Model provider `other` not found; known are: mine, openai, azure, "):
        find_provider("other", tables, {})


@pytest.mark.parametrize(
    ("base", "query", "target"),
    [
        ("http://host/v1", {}, "/v1/chat/completions"),
        ("http://host/v1/", {"api-version": "a b&c=d"}, "/v1/chat/completions?api-version=a%20b%26c%3Dd"),
        ("http://host", {}, "/chat/completions"),
        ("http://host/v1?k=v", {"q": "1"}, "/v1/chat/completions?k=v&q=1"),
    ],
)
def test_addresses_are_put_together_properly(base: str, query: dict[str, str], target: str) -> None:
    assert request_url(Provider("p", "P", base, query_params=query), "/chat/completions").target == target


async def test_headers_and_query_reach_the_server() -> None:
    env = {"MOCK_KEY": " abc ", "MOCK_HEADER": "from-env", "BLANK": " "}
    async with (
        loopback(stream(delta("stop", content="ok"))) as server,
        opened(
            server.url,
            env=env,
            env_key="MOCK_KEY",
            query_params={"api-version": "1"},
            http_headers={"X-Fixed": "yes", "accept": "text/event-stream, */*"},
            env_http_headers={"X-From-Env": "MOCK_HEADER", "X-Absent": "NO_SUCH_VARIABLE", "X-Blank": "BLANK"},
        ) as model,
    ):
        await model.answer()
    request = server.requests[0]
    assert request.target == "/v1/chat/completions?api-version=1"
    assert request.headers["authorization"] == "Bearer abc"
    assert (request.headers["x-fixed"], request.headers["x-from-env"]) == ("yes", "from-env")
    assert request.headers["accept"] == "text/event-stream, */*"
    assert not {"x-absent", "x-blank"} & request.headers.keys()


async def test_a_user_in_the_address_logs_in_there() -> None:
    answer = stream(delta("stop", content="ok"))
    async with loopback(answer) as server, opened(server.url.replace("//", "//user:p%40ss@")) as model:
        await model.answer()
    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpwQHNz"
