"""A request that failed says who refused it, with which key (never the key itself), and what to do."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.models.loopback import built_in, delta, loopback, opened, status, stream
from understudy.errors import MissingKey, ModelRefused, ModelUnavailable
from understudy.models.auth import Credentials

KEY = "sk-secret-12345678"
WITH_KEY: dict[str, Any] = {"env_key": "MOCK_KEY", "env": {"MOCK_KEY": KEY}}


async def failure_of(*actions: Any, **options: Any) -> tuple[str, str]:
    """The words that clients know, and the hint after them."""
    async with loopback(list(actions[0])) as server, opened(server.url, **options) as model:
        _, failure = await model.failing_answer()
    assert KEY not in str(failure)
    told, _, hint = str(failure).partition("\n")
    return told, hint.replace(server.url, "URL")


async def test_a_key_that_is_not_accepted_is_named_by_its_variable() -> None:
    told, hint = await failure_of(status(401, "Unauthorized", f'{{"error":{{"message":"bad key {KEY}"}}}}'), **WITH_KEY)
    assert told == 'unexpected status 401 Unauthorized: {"error":{"message":"bad key [hidden]"}}'
    assert hint == (
        "Mock (model provider `mock`) did not accept the key from the variable `MOCK_KEY`."
        " Check that it is whole, still valid, and meant for this provider and model."
    )


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (status(401, "Unauthorized", '{"error":{"message":"bad key"}}'), "bad key"),
        (status(403, "Forbidden", "<html><style>p {}</style>\n<p>go\n away</p></html>"), "go away"),
        (status(400, "Bad Request", "plain   words"), "plain   words"),
        (status(404, "Not Found", ""), ""),
    ],
)
async def test_an_error_has_the_status_and_the_providers_words_apart(action: Any, words: str) -> None:
    async with loopback(action) as server, opened(server.url, **WITH_KEY) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelRefused)
    _, found, hint = str(failure).rpartition("\n")
    assert failure.words == words + (f"\n{hint}" if found else "")
    assert str(failure.status) in str(failure)


async def test_a_key_from_auth_json_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(f'{{"OPENAI_API_KEY": "{KEY}"}}')
    _, hint = await failure_of(status(403, "Forbidden"), requires_openai_auth=True, home=tmp_path)
    assert f"the key from {tmp_path / 'auth.json'}." in hint


async def test_where_no_key_was_sent_it_says_how_to_send_one() -> None:
    _, hint = await failure_of(status(401, "Unauthorized"))
    assert hint.endswith("Name the variable that holds your key: set `env_key` in `[model_providers.mock]`.")


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_quota_is_said_to_be_the_accounts(in_stream: bool) -> None:
    error = '{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}'
    answer = stream({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})
    told, hint = await failure_of(answer if in_stream else status(429, "Too Many Requests", error), **WITH_KEY)
    assert told == f"{'' if in_stream else 'unexpected status 429 Too Many Requests: '}You exceeded your current quota"
    assert hint == (
        "This is the quota of your account at Mock (model provider `mock`), for the key from the variable `MOCK_KEY`."
        " Look at its billing there, or use another key or provider."
    )


@pytest.mark.parametrize(
    "body",
    ['{"error":{"message":"no such thing","code":"model_not_found"}}', '{"error":{"message":"model \\"mock-model\\" not found"}}'],
)
async def test_a_model_that_is_not_offered_is_named(body: str) -> None:
    _, hint = await failure_of(status(404, "Not Found", body))
    assert hint == (
        "Mock (model provider `mock`) does not seem to offer the model `mock-model`."
        " Set `model` to one that it has, or use another provider."
    )


async def test_a_wrong_address_is_shown() -> None:
    told, hint = await failure_of(status(404, "Not Found", "<html>nginx</html>"))
    assert told == "unexpected status 404 Not Found: <html>nginx</html>"
    assert hint == (
        "Mock (model provider `mock`) has nothing at URL/chat/completions."
        " Check `base_url` (it usually ends in /v1), `wire_api` and `model` (`mock-model`)."
    )


async def test_a_web_page_is_no_model() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"
    _, hint = await failure_of([page])
    assert hint == "That is no model: check `base_url` of model provider `mock`, which usually ends in /v1."


async def test_a_port_where_nobody_listens_is_told_with_the_providers_name() -> None:
    async with loopback() as server:
        url = server.url
    async with opened(url) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelUnavailable)
    assert failure.brief == f"cannot connect to {url}/chat/completions: connection refused"
    assert str(failure) == (
        f"{failure.brief}\nNothing listens there. Is the server of Mock (model provider `mock`) running,"
        " and is `base_url` of model provider `mock` right?"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("answered_before", "expected"), [(False, 2), (True, 4)])
async def test_a_server_on_this_machine_is_waited_for_only_where_it_has_been_there(
    answered_before: bool, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as opening:
        async with loopback(*([stream(delta("stop", content="Hi."))] if answered_before else [])) as server:
            model = await opening.enter_async_context(opened(server.url, request_max_retries=4))
            if answered_before:
                await model.answer()
        with caplog.at_level("DEBUG", logger="understudy.models.http_model"):
            _, failure = await model.failing_answer()
    assert isinstance(failure, ModelUnavailable)
    assert failure.lasting is not answered_before
    assert sum("again in" in record.getMessage() for record in caplog.records) == expected


@pytest.mark.parametrize(
    ("url", "env", "hint", "kind"),
    [
        ("http://no-such-host.invalid/v1", {}, "Check `base_url` of model provider `mock`, and whether this", ModelUnavailable),
        ("http://model.invalid/v1", {"HTTP_PROXY": "socks5://user:word@x:1"}, "The proxy comes from HTTPS_PROXY,", ModelRefused),
    ],
)
async def test_names_and_proxies_are_told_with_a_remedy(url: str, env: dict[str, str], hint: str, kind: type[Exception]) -> None:
    async with opened(url, env=env) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, kind)
    assert str(failure).partition("\n")[2].startswith(hint)
    assert "word" not in str(failure)


async def test_plain_http_where_https_was_meant_says_so() -> None:
    async def answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_plainly, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, opened(f"https://127.0.0.1:{port}/v1") as model:
        _, failure = await model.failing_answer()
    assert str(failure).endswith("\nDoes it speak https there? Check `base_url` of model provider `mock`.")


def test_a_login_without_a_key_is_named_where_the_key_is_missed(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text('{"OPENAI_API_KEY": null, "tokens": {"access_token": "x"}}')
    with pytest.raises(MissingKey) as missing:
        Credentials({}, tmp_path).key_for(built_in("openai"))
    assert str(missing.value) == (
        f"Missing environment variable: `OPENAI_API_KEY`. {tmp_path / 'auth.json'} holds a ChatGPT login,"
        " and only API keys are supported: set the variable to one."
    )
