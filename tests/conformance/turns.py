"""Tools whose calls are turns of the agent, so that what the suites see of streams and tasks is what users get."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.asking_tools import NAME, accepted, asked_of, input_required
from tests.conformance.offered import Json, Tools, properties
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.mcp import task_methods
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.codex_tools import codex

TOOLS = Tools()
ASKING: Json = {"approval-policy": "untrusted", "sandbox": "workspace-write"}


async def begin_turn(call: Call, prompt: str, **arguments: Any) -> Any:
    call.arguments = {"prompt": prompt, **arguments}
    return await codex(call)


@TOOLS.add("test_reconnection", "Closes the stream of its call before it is answered")
async def reconnection(call: Call) -> Any:
    answered_later = await begin_turn(call, "wait 0.3")
    assert isinstance(call.sink, StreamSink)
    while not call.sink.begun:  # noqa: ASYNC110  # nothing can be resumed before there is an event
        await asyncio.sleep(0.01)
    call.sink.end()
    return answered_later


@TOOLS.add("slow_compute", "Takes its time", properties("seconds", seconds={"type": "number"}, label={"type": "string"}), turn=True)
async def slow_compute(call: Call) -> Any:
    return await begin_turn(call, f"wait {call.arguments['seconds']}")


@TOOLS.add("failing_job", "Fails, and only as a task", turn=True)
async def failing_job(call: Call) -> Any:
    task_methods.check_declared(call)
    return await begin_turn(call, "fail")


@TOOLS.add("confirm_delete", "Asks before it deletes a file", properties("filename"), turn=True)
async def confirm_delete(call: Call) -> Any:
    return await begin_turn(call, f"delete {call.arguments['filename']}", **ASKING)


@TOOLS.add("test_tool_with_task", "Asks for a name, and greets in a task", turn=True)
async def tool_with_task(call: Call) -> Any:
    task_methods.check_declared(call)
    name = accepted(asked_of(call).input_responses, "user_name", "name")
    return input_required({"user_name": NAME}) if name is None else await begin_turn(call, f"Hello, {name}!")
