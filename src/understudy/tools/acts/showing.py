"""What whoever watches is shown of a call that only reads: that it began, and what the model was given for it."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec

from understudy.errors import ToolError
from understudy.protocol.records import OWN_SERVER, ToolCallBegan, ToolCallEnded
from understudy.tools.host import ToolHost
from understudy.tools.tool import ToolOutput

MOST_SHOWN = 4 * 1024  # characters of the result; the model is given all of it
LONGEST_ARGUMENT = 1024


async def shown(host: ToolHost, call_id: str, tool: str, request: msgspec.Struct, work: Awaitable[ToolOutput]) -> ToolOutput:
    """Nothing is changed by such a call, so it does not wait until its intent is on disk."""
    arguments = {name: _short(value) for name, value in msgspec.structs.asdict(request).items() if value is not None}
    host.record(ToolCallBegan(call_id, OWN_SERVER, tool, arguments, read_only=True))
    started = asyncio.get_running_loop().time()
    result: dict[str, Any] | None = None
    error: str | None = "interrupted"
    try:
        output = await work
        result, error = {"content": [{"type": "text", "text": _cut(output.text)}]}, None
        return output
    except ToolError as failure:
        error = str(failure)
        raise
    finally:
        seconds = asyncio.get_running_loop().time() - started
        host.record(ToolCallEnded(call_id, OWN_SERVER, tool, seconds, arguments, read_only=True, result=result, error=error))


def _short(value: Any) -> Any:
    return value if not isinstance(value, str) or len(value) <= LONGEST_ARGUMENT else value[:LONGEST_ARGUMENT] + "…"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}\n[... {len(text) - MOST_SHOWN} more characters ...]"
