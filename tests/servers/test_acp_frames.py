"""ACP answers whatever it is sent: hypothesis makes the frames, the dispatcher has a real engine behind it."""

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
from understudy.servers.acp.dispatcher import METHODS, Dispatcher
from understudy.servers.acp.tool_calls import read_hunks, replace
from understudy.servers.pipes import read_message
from understudy.testing.waiting import WAIT_SECONDS
from understudy.tools.patch.unified import unified_diff

UNKNOWN = "00000000-0000-4000-8000-000000000000"
HELLO = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"protocolVersion": 1}}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8
)
members = st.sampled_from(
    [
        "sessionId",
        "cwd",
        "mcpServers",
        "prompt",
        "cursor",
        "modeId",
        "configId",
        "value",
        "requestId",
        "protocolVersion",
        "methodId",
    ]
)
params = st.dictionaries(members, values | st.just(UNKNOWN), max_size=5) | values
methods = st.sampled_from(sorted(METHODS)) | st.text(max_size=12)
notifications = st.sampled_from(["session/cancel", "$/cancel_request", "no/such"])


class Sink:
    closed = False
    congested = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def send(self, message: bytes, related_to: RequestId | None) -> None:
        self.lines += message.splitlines()

    answer = send

    def drained(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)


async def answered(home: Path, lines: list[bytes], count: int) -> list[Any]:
    engine = Engine(env={"CODEX_HOME": str(home), "HOME": str(home)})
    sink = Sink()
    dispatcher = Dispatcher(engine, LOCAL, sink)
    for line in [json.dumps(HELLO).encode(), *lines]:
        dispatcher.receive(read_message(line))
    async with asyncio.timeout(WAIT_SECONDS):
        while len(answers(sink)) < count + 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    dispatcher.close()
    await engine.close()
    return answers(sink)


def answers(sink: Sink) -> list[Any]:
    return [message for message in map(json.loads, sink.lines) if "method" not in message]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(methods, params), min_size=1, max_size=6), st.lists(st.tuples(notifications, params), max_size=3))
def test_every_request_has_one_answer(tmp_path: Path, requests: list[tuple[str, Any]], told: list[tuple[str, Any]]) -> None:
    notes = [json.dumps({"jsonrpc": "2.0", "method": method, "params": given}).encode() for method, given in told]
    asked = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": given}).encode()
        for number, (method, given) in enumerate(requests)
    ]
    found = asyncio.run(answered(tmp_path, [*notes, *asked], len(requests)))
    numbered = [answer for answer in found if isinstance(answer.get("id"), int)]
    assert sorted(answer["id"] for answer in numbered) == list(range(len(requests)))
    for answer in numbered:
        assert ("result" in answer) != ("error" in answer)
        assert "internal error" not in json.dumps(answer), answer


texts = st.lists(st.sampled_from(["a", "b", "", "c d", "-x", "+y", "@@"]), max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(f"{line}\n" for line in lines)])
)


@given(texts, texts)
def test_the_hunks_of_a_change_make_the_new_text_of_the_old_one_and_back(old: str, new: str) -> None:
    hunks = read_hunks(unified_diff(old, new, context=1))
    assert replace(old, [(hunk.old_start, hunk.old, hunk.new) for hunk in hunks]) == new
    assert replace(new, [(hunk.new_start, hunk.new, hunk.old) for hunk in hunks]) == old
