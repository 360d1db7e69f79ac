"""Servers that are slow, silent, dead or mad: every wait has a bound, and the reason that is given is the true one."""

import asyncio
from typing import Any

import pytest

from tests.models.loopback import (
    BOUND,
    CLOSE,
    HANG,
    LAST_CHUNK,
    RESET,
    STREAM_HEAD,
    Action,
    chunk,
    delta,
    event,
    loopback,
    opened,
    prompt,
)
from understudy.errors import ModelError, StreamLost
from understudy.models.model import Completed

IDLE = "stream disconnected before completion: idle timeout waiting for SSE"


async def failure_of(actions: list[Action], **options: Any) -> ModelError:
    async with loopback(actions) as server, opened(server.url, **options) as model:
        _, failure = await model.failing_answer()
    return failure


@pytest.mark.parametrize(
    "trickle",
    [
        chunk(b"x"),  # never the end of a line
        chunk(b": still here\n"),
        chunk(b'data: {"choices":[]}\n\n'),
        chunk(b"event: ping\n\n"),
        b"1;x=y\r\n",  # the beginning of a chunk that never comes
    ],
    ids=["bytes", "comments", "empty events", "pings", "chunk heads"],
)
async def test_a_peer_that_trickles_is_given_up(trickle: bytes) -> None:
    actions: list[Action] = [STREAM_HEAD, chunk(event(delta(content="hi")))]
    if trickle.startswith(b"1;"):
        actions += [trickle[:1], 0.02, b";", *[action for _ in range(200) for action in (0.02, b"a")], HANG]
    else:
        actions += [*[action for _ in range(200) for action in (0.02, trickle)], HANG]
    failure = await failure_of(actions, stream_idle_timeout_ms=100)
    assert isinstance(failure, StreamLost)
    assert str(failure) == IDLE


async def test_a_head_that_trickles_is_given_up() -> None:
    actions: list[Action] = [b"HTTP/1.1 200 OK\r\nX-Slow: ", *[action for _ in range(200) for action in (0.02, b"a")], HANG]
    assert str(await failure_of(actions, stream_idle_timeout_ms=100)) == IDLE


@pytest.mark.slow
async def test_comments_while_the_model_thinks_keep_a_stream_alive_beyond_the_idle_time() -> None:
    thinking: list[Action] = [action for _ in range(12) for action in (0.3, chunk(b": OPENROUTER PROCESSING\n\n"))]
    answer = [STREAM_HEAD, *thinking, chunk(event(delta("stop", content="hi")) + b"data: [DONE]\n\n"), LAST_CHUNK]
    async with loopback(answer) as server, opened(server.url, stream_idle_timeout_ms=3000) as model:
        events = await model.answer()
    assert isinstance(events[-1], Completed)


@pytest.mark.slow
async def test_the_time_that_a_tool_takes_is_not_the_models() -> None:
    """Between two reads the turn may run a command for longer than the idle time."""
    answer: list[Action] = [STREAM_HEAD, chunk(event(delta(content="a"))), 0.05, chunk(event(delta("stop"))), LAST_CHUNK]
    async with (
        asyncio.timeout(BOUND),
        loopback(answer) as server,
        opened(server.url, stream_idle_timeout_ms=3000) as model,
        model.model.stream(prompt()) as running,
    ):
        assert await anext(running)
        await asyncio.sleep(3.2)  # stands for the command
        events = [one async for one in running]
    assert isinstance(events[-1], Completed)


WHOLE = STREAM_HEAD + chunk(event(delta(content="hello"))) + chunk(event(delta("stop"))) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK


@pytest.mark.parametrize("ending", [CLOSE, RESET])
async def test_a_server_that_goes_at_any_byte_is_told_as_lost_or_had_said_all(ending: str) -> None:
    said_all = WHOLE.index(b"stop") + 20
    for length in range(0, len(WHOLE), 3):
        async with loopback([WHOLE[:length], 0.001, ending]) as server, opened(server.url) as model:
            reason = ""
            try:
                await model.answer()
            except ModelError as failure:
                reason = str(failure)
        if reason:
            assert length < said_all + 40
            assert "disconnected" in reason or "connection" in reason
        else:
            assert length > said_all - 40


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"\x00\x01\x02garbage\r\n\r\n", "not valid HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "more than 65536 bytes of headers"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3000, "more than 65536 bytes of headers"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nxx", "encoded as 'br'"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nxxxxxxxx", "cannot be unpacked"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 \xff\xfe\r\nX: \xff\r\nContent-Length: 3\r\n\r\n\xff\xfe\xfd", "stream closed before response.completed"),
    ],
)
async def test_garbage_is_told_as_what_it_is(garbage: bytes, reason: str) -> None:
    failure = await failure_of([garbage, CLOSE])
    assert reason in str(failure)
    str(failure).encode()


async def test_an_error_body_that_trickles_or_is_no_text_is_told_in_part() -> None:
    refusal = b"HTTP/1.1 400 Bad \xff\r\nContent-Length: 9\r\n\r\nbad \xff\xed\xa0\x80!"
    failure = await failure_of([refusal, HANG])
    assert str(failure).startswith("unexpected status 400 Bad Request: bad \ufffd")
    str(failure).encode()
