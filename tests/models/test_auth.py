"""Keys: found where they should be, sent only where they belong, shown nowhere."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.models.loopback import built_in, delta, loopback, opened, status, stream
from understudy.errors import MissingKey
from understudy.models.auth import Credentials, Secret
from understudy.models.providers import Provider

OPENAI = built_in("openai")
SECRET = "sk-very-secret-0123456789"


def key(provider: Provider, env: dict[str, str], home: Path) -> str | None:
    found = Credentials(env, home).key_for(provider)
    return found and found.reveal()


def keep(home: Path, content: Any) -> None:
    (home / "auth.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_openai_takes_its_key_from_the_environment_first(tmp_path: Path) -> None:
    keep(tmp_path, {"OPENAI_API_KEY": "from-file"})
    assert key(OPENAI, {"OPENAI_API_KEY": "from-env"}, tmp_path) == "from-env"
    assert key(OPENAI, {"OPENAI_API_KEY": "  "}, tmp_path) == "from-file"


def test_openais_key_goes_to_no_other_provider(tmp_path: Path) -> None:
    keep(tmp_path, {"OPENAI_API_KEY": "from-file"})
    env = {"OPENAI_API_KEY": "from-env"}
    assert key(Provider("other", "Other", wire_api="responses"), env, tmp_path) is None
    with pytest.raises(MissingKey):
        key(Provider("other", "Other", env_key="OTHER_KEY"), env, tmp_path)
    asked_for = Provider("gateway", "Gateway", env_key="OTHER_KEY", requires_openai_auth=True)
    assert key(asked_for, env, tmp_path) == "from-env"
    assert key(asked_for, {**env, "OTHER_KEY": "own"}, tmp_path) == "own"


def test_a_missing_variable_is_named_with_the_providers_instructions(tmp_path: Path) -> None:
    provider = Provider("mock", "Mock", env_key="NO_SUCH_VARIABLE", env_key_instructions="Set it.")
    with pytest.raises(MissingKey, match=r"^Missing environment variable: `NO_SUCH_VARIABLE`\. Set it\.$"):
        key(provider, {"NO_SUCH_VARIABLE": " \t"}, tmp_path)
    with pytest.raises(MissingKey, match=r"^Missing environment variable: `X`\.$"):
        key(Provider("mock", "Mock", env_key="X"), {}, tmp_path)
    with pytest.raises(MissingKey, match=r"^Missing environment variable: `OPENAI_API_KEY`\. .*auth\.json"):
        key(OPENAI, {}, tmp_path)


def test_a_login_without_a_key_gets_a_clear_word(tmp_path: Path) -> None:
    keep(tmp_path, {"OPENAI_API_KEY": None, "tokens": {"access_token": SECRET}, "last_refresh": "2025-08-01T00:00:00Z"})
    with pytest.raises(MissingKey, match="holds a ChatGPT login, and only API keys are supported") as missing:
        key(OPENAI, {}, tmp_path)
    assert SECRET not in str(missing.value)


@pytest.mark.parametrize("content", ["not json", "[1]", '{"OPENAI_API_KEY": 7}', ""])
def test_an_auth_file_that_makes_no_sense_is_a_missing_key(tmp_path: Path, content: str) -> None:
    keep(tmp_path, content)
    with pytest.raises(MissingKey):
        key(OPENAI, {}, tmp_path)


def test_a_key_that_would_break_the_request_is_not_sent(tmp_path: Path) -> None:
    with pytest.raises(MissingKey, match="cannot be sent") as missing:
        key(Provider("mock", "Mock", env_key="KEY"), {"KEY": f"{SECRET}\r\nEvil: 1"}, tmp_path)
    assert SECRET not in str(missing.value)


def test_secrets_do_not_show_themselves() -> None:
    provider = Provider("mock", "Mock", f"http://user:{SECRET}@host/v1", http_headers={"X-Key": SECRET})
    shown = [repr(Secret(SECRET)), str(Secret(SECRET)), repr(Credentials({"KEY": SECRET}, Path())), repr(provider)]
    assert not any(SECRET in text for text in shown)


async def test_a_missing_key_fails_the_answer_before_anything_is_sent() -> None:
    async with loopback() as server, opened(server.url, env_key="NO_SUCH_VARIABLE") as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, MissingKey)
    assert server.connections == 0


@pytest.mark.parametrize("code", [401, 429, 500])
async def test_a_provider_that_repeats_the_key_does_not_reveal_it(code: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}"}})
    env = {"KEY": SECRET}
    async with loopback(status(code, "No", body)) as server, opened(server.url, env=env, env_key="KEY") as model:
        _, failure = await model.failing_answer()
    assert "Incorrect API key provided: [hidden]" in str(failure)
    assert SECRET not in str(failure) + caplog.text
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_a_key_written_into_a_header_is_hidden_without_its_scheme_too() -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}"}})
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with loopback(status(401, "No", body)) as server, opened(server.url, http_headers=headers) as model:
        _, failure = await model.failing_answer()
    assert "Incorrect API key provided: [hidden]" in str(failure)


async def test_a_key_repeated_in_the_stream_is_hidden_too() -> None:
    broken = stream({"error": {"message": f"no quota for {SECRET}", "code": 502}}, delta("stop"))
    async with loopback(broken) as server, opened(server.url, env={"KEY": SECRET}, env_key="KEY") as model:
        _, failure = await model.failing_answer()
    assert str(failure) == "stream disconnected before completion: no quota for [hidden]"
