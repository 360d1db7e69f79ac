"""Tools that answer by themselves: every kind of content, errors, progress and log messages."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.offered import Tools, notify, properties, result, text
from understudy.errors import AgentError
from understudy.servers.failures import ProtocolError
from understudy.servers.mcp.call import Call
from understudy.servers.mcp.handshake import MODERN
from understudy.servers.mcp.modern import MISSING_CAPABILITY

TOOLS = Tools()
PAUSE_SECONDS = 0.05

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}

JSON_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@TOOLS.add("test_simple_text", "Answers with a text")
async def simple_text(call: Call) -> Any:
    return result(text("This is a simple text response for testing."))


@TOOLS.add("greet", "Greets somebody", properties("name"))
async def greet(call: Call) -> Any:
    return result(text(f"Hello, {call.arguments['name']}!"))


@TOOLS.add("test_image_content", "Answers with a picture")
async def image(call: Call) -> Any:
    return result(IMAGE)


@TOOLS.add("test_audio_content", "Answers with a sound")
async def audio(call: Call) -> Any:
    return result({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


def embedded(uri: str, kind: str, content: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": content}}


@TOOLS.add("test_embedded_resource", "Answers with a resource")
async def embedded_resource(call: Call) -> Any:
    return result(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@TOOLS.add("test_multiple_content_types", "Answers with several kinds of content")
async def multiple_content(call: Call) -> Any:
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return result(text("Multiple content types test:"), IMAGE, resource)


@TOOLS.add("test_error_handling", "Fails")
async def error(call: Call) -> Any:
    raise AgentError("This tool intentionally returns an error for testing")


@TOOLS.add("json_schema_2020_12_tool", "Has a schema with much of the vocabulary of 2020-12", JSON_SCHEMA_2020_12)
async def json_schema(call: Call) -> Any:
    return result(text("ok"))


@TOOLS.add(
    "test_header_param", "Has an argument that is in a header, too", properties(region={"type": "string", "x-mcp-header": "Region"})
)
async def header_param(call: Call) -> Any:
    return result(text(f"region {call.arguments.get('region')}"))


@TOOLS.add("test_tool_with_progress", "Tells how far it is")
async def with_progress(call: Call) -> Any:
    for progress in (0, 50, 100):
        if call.progress_token is not None:
            notify(call, "notifications/progress", progressToken=call.progress_token, progress=progress, total=100)
        await asyncio.sleep(PAUSE_SECONDS)
    return result(text("Done."))


@TOOLS.add("test_tool_with_logging", "Tells what it does")
async def with_logging(call: Call) -> Any:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        notify(call, "notifications/message", level="info", logger="conformance", data=words)
        await asyncio.sleep(PAUSE_SECONDS)
    return result(text("Done."))


@TOOLS.add("test_logging_tool", "Tells what it does, if the request asks for it")
async def logging_tool(call: Call) -> Any:
    if call.client.peer.version != MODERN:  # there only if a request asks for it, and none does
        notify(call, "notifications/message", level="info", data="at work")
    return result(text("Done."))


@TOOLS.add("test_missing_capability", "Needs a client that can be asked for samples")
async def missing_capability(call: Call) -> Any:
    if "sampling" not in call.client.capabilities:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise ProtocolError(MISSING_CAPABILITY, "this tool needs a client that declares `sampling`", needed)
    return result(text("The client can be asked."))
