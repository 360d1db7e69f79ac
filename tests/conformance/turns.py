"""Tools whose calls are turns of the agent, so that what the suites see of streams and tasks is what users get."""

from __future__ import annotations

from typing import Any

from tests.conformance.offered import Tools
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.mcp.call import Call, Handler
from understudy.servers.mcp.codex_tools import codex

TOOLS = Tools()
METHODS: dict[str, Handler] = {}


async def begin_turn(call: Call, prompt: str, **arguments: Any) -> Any:
    call.arguments = {"prompt": prompt, **arguments}
    return await codex(call)


@TOOLS.add("test_reconnection", "Closes the stream of its call before it is answered")
async def reconnection(call: Call) -> Any:
    answered_later = await begin_turn(call, "wait 0.3")
    assert isinstance(call.sink, StreamSink)
    call.sink.end()
    return answered_later
