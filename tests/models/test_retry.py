"""Requests that fail: asked again where time may help, told at once where not, in the provider's own words."""

import asyncio
import re
import time
from email.utils import formatdate
from http import HTTPStatus

import pytest

from tests.models.loopback import BOUND, HANG, Action, delta, loopback, opened, said, status, stream
from understudy.errors import ModelRefused, ModelUnavailable, StreamLost
from understudy.models.failures import backoff, retry_after
from understudy.models.model import Completed, ItemDone
from understudy.protocol.records import TextDelta

OK = stream(delta("stop", content="ok"))
ANSWER = [TextDelta("ok"), ItemDone(said("ok")), Completed(None)]


@pytest.mark.parametrize("code", [408, 409, 429, 500, 503, 529])
async def test_what_may_pass_with_time_is_asked_again_without_a_word(code: int) -> None:
    async with loopback(status(code, "Oh"), OK) as server, opened(server.url, request_max_retries=1) as model:
        assert await model.answer() == ANSWER


@pytest.mark.parametrize(
    "broken", [["close"], ["reset"], [b"HTTP/1.1 200 OK\r\nContent-Ty", "close"]], ids=["closed", "reset", "inside the head"]
)
async def test_a_connection_that_breaks_before_the_answer_is_made_anew(broken: list[Action]) -> None:
    async with loopback(broken, OK) as server, opened(server.url, request_max_retries=1) as model:
        assert await model.answer() == ANSWER


async def test_the_provider_decides_how_long_to_wait() -> None:
    refusal = status(429, "Too Many Requests", Retry_After="0.7")
    async with loopback(refusal, OK) as server, opened(server.url, request_max_retries=1) as model:
        started = time.monotonic()
        assert await model.answer() == ANSWER
    assert time.monotonic() - started >= 0.7  # our own delay would have been 0.2


async def test_after_the_last_try_the_status_and_the_providers_words_are_told() -> None:
    refusal = status(429, "Too Many Requests", '{"error":{"message":"slow down"}}', Retry_After="0")
    async with loopback(refusal, refusal) as server, opened(server.url, request_max_retries=1) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelUnavailable)
    assert failure.brief == "exceeded retry limit, last status: 429 Too Many Requests"
    assert str(failure) == (
        "exceeded retry limit, last status: 429 Too Many Requests: slow down\n"
        "Mock (model provider `mock`) allows no more requests for now, for a request without a key. "
        "Try again later, or use another key or provider."
    )


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
async def test_what_time_does_not_mend_is_told_at_once(code: int) -> None:
    refusal = status(code, "No", '{"error":{"message":"bad key"}}')
    async with loopback(refusal) as server, opened(server.url, request_max_retries=3) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelRefused)
    told = str(failure).split("\n")[0]
    assert told == f'unexpected status {code} {HTTPStatus(code).phrase}: {{"error":{{"message":"bad key"}}}}'


@pytest.mark.parametrize("kind", ["usage_limit_reached", "insufficient_quota"])
async def test_a_used_up_quota_is_final(kind: str) -> None:
    body = f'{{"error":{{"type":"{kind}","message":"The limit is reached.","resets_in_seconds":7500}}}}'
    async with loopback(status(429, "Too Many Requests", body)) as server, opened(server.url, request_max_retries=3) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelRefused)
    told, hint = str(failure).split("\n")
    assert told == "unexpected status 429 Too Many Requests: The limit is reached. (resets in 2h 5m)"
    assert hint.startswith("This is the quota of your account at Mock (model provider `mock`), for a request without a key. ")


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    redirect = status(307, "Temporary Redirect", Location="https://user:word@elsewhere.example/v1?token=1")
    async with loopback(redirect) as server, opened(server.url, env_key="KEY", env={"KEY": "sk-12345678"}) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelRefused)
    assert str(failure) == (
        "unexpected status 307 Temporary Redirect: the provider redirects to https://elsewhere.example/v1; "
        "if that is right, set base_url to it"
    )


async def test_a_long_refusal_is_told_in_part() -> None:
    async with loopback(status(400, "Bad Request", "x" * 300_000)) as server, opened(server.url) as model:
        _, failure = await model.failing_answer()
    assert len(str(failure)) < 5000


@pytest.mark.parametrize("pause", ["99999999", "Tue, 31 Dec 2999 23:59:59 GMT"])
async def test_nobody_waits_for_a_pause_that_is_too_long_and_the_reason_is_told(pause: str) -> None:
    refusal = status(429, "Too Many Requests", Retry_After=pause)
    async with loopback(refusal) as server, opened(server.url, request_max_retries=4) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelUnavailable)
    assert failure.lasting
    assert re.search(r"asks for a pause of \d+ days, and no turn waits longer than 2 minutes", str(failure))


async def test_a_provider_that_never_begins_to_answer_is_given_up() -> None:
    async with loopback([HANG]) as server, opened(server.url, stream_idle_timeout_ms=50) as model:
        _, failure = await model.failing_answer()
        async with asyncio.timeout(BOUND):
            await server.hung_up.wait()
    assert isinstance(failure, StreamLost)
    assert str(failure) == "stream disconnected before completion: idle timeout waiting for SSE"


async def test_a_web_page_is_no_answer() -> None:
    page = status(200, "OK", "<html>Log in</html>", Content_Type="text/html")
    async with loopback(page) as server, opened(server.url) as model:
        _, failure = await model.failing_answer()
    assert isinstance(failure, ModelRefused)
    assert "<html>Log in</html>" in str(failure)


async def test_giving_up_while_waiting_to_ask_again_is_immediate() -> None:
    async with loopback(status(503, "Busy", Retry_After="30")) as server, opened(server.url, request_max_retries=1) as model:
        asking = asyncio.create_task(model.answer())
        async with asyncio.timeout(BOUND):
            await server.asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking


def test_delays_double_and_stay_bounded() -> None:
    for attempt, middle in [(1, 0.2), (2, 0.4), (5, 3.2), (9, 51.2), (10, 60.0), (100_000, 60.0)]:
        assert middle * 0.9 <= backoff(attempt) <= middle * 1.1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    delay = retry_after({"retry-after": formatdate(time.time() + 20, usegmt=True)})
    assert delay is not None
    assert 15 < delay <= 20
    assert retry_after({"retry-after": formatdate(time.time() - 20, usegmt=True)}) == 0
