"""The app server answers whatever it is sent: hypothesis makes the frames, the dispatcher has a real engine behind it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.jsonrpc import RequestId
from understudy.servers.app_server.dispatcher import METHODS, Dispatcher
from understudy.servers.pipes import read_message
from understudy.testing.waiting import WAIT_SECONDS

UNKNOWN = "00000000-0000-4000-8000-000000000000"
SLOW = {"thread/start"}  # begins conversations: tried elsewhere

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8
)
members = st.sampled_from(
    [
        "threadId",
        "turnId",
        "expectedTurnId",
        "input",
        "cwd",
        "limit",
        "cursor",
        "config",
        "sandbox",
        "sandboxPolicy",
        "type",
        "apiKey",
        "name",
    ]
)
params = st.dictionaries(members, values | st.just(UNKNOWN), max_size=5) | values
methods = st.sampled_from(sorted(set(METHODS) - SLOW)) | st.text(max_size=12)


class Sink:
    closed = False
    congested = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        self.lines += message.splitlines()

    def answer(self, message: bytes, related_to: RequestId) -> None:
        self.send(message, related_to)

    def drained(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


async def answered(home: Path, lines: list[bytes]) -> list[Any]:
    engine = Engine(env={"CODEX_HOME": str(home), "HOME": str(home)})
    sink = Sink()
    dispatcher = Dispatcher(engine, LOCAL, sink)
    hello = {"id": "hello", "method": "initialize", "params": {"clientInfo": {"name": "probe", "version": "1"}}}
    for line in [json.dumps(hello).encode(), *lines]:
        dispatcher.receive(read_message(line))
    async with asyncio.timeout(WAIT_SECONDS):
        while dispatcher.busy:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    dispatcher.close()
    await engine.close()
    return [json.loads(line) for line in sink.lines if b'"method"' not in line.split(b",")[0]]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(methods, params), min_size=1, max_size=6))
def test_every_request_has_one_answer(tmp_path: Path, requests: list[tuple[str, Any]]) -> None:
    lines = [
        json.dumps({"id": number, "method": method, "params": given}).encode() for number, (method, given) in enumerate(requests)
    ]
    answers = asyncio.run(answered(tmp_path, lines))
    numbered = [answer for answer in answers if isinstance(answer.get("id"), int)]
    assert sorted(answer["id"] for answer in numbered) == list(range(len(requests)))
    for answer in numbered:
        assert ("result" in answer) != ("error" in answer)
        assert "internal error" not in json.dumps(answer), answer


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(
        st.binary(min_size=1, max_size=60).map(lambda raw: raw.replace(b"\n", b" "))
        | values.map(lambda value: json.dumps(value).encode()),
        max_size=8,
    )
)
def test_a_frame_that_is_no_message_is_told_so_and_the_next_is_served(tmp_path: Path, frames: list[bytes]) -> None:
    frames = [frame.strip() for frame in frames if frame.strip()]
    after: dict[str, Any] = {"id": "after", "method": "thread/loaded/list", "params": {}}
    answers = asyncio.run(answered(tmp_path, [*frames, json.dumps(after).encode()]))
    assert [answer for answer in answers if answer.get("id") == "after"] == [
        {"id": "after", "result": {"data": [], "nextCursor": None}}
    ]
    assert len(answers) == 2 + len(frames)
