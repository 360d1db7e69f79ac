"""Methods beside tools: resources, prompts, completion. All that they serve is data."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tests.conformance.asking_tools import accepted, form, input_required
from tests.conformance.offered import Json, text
from tests.conformance.plain_tools import IMAGE, PNG, embedded
from understudy.servers.failures import InvalidParams, ProtocolError
from understudy.servers.mcp.call import Call, Handler

CACHING: Json = {"ttlMs": 60_000, "cacheScope": "public"}
STATIC: Json = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}
TEMPLATE = "test://template/{id}/data"
_FROM_TEMPLATE = re.compile(r"test://template/([^/]+)/data")


async def list_resources(call: Call) -> Any:
    listed = [{"uri": uri, "name": uri.removeprefix("test://"), "mimeType": held["mimeType"]} for uri, held in STATIC.items()]
    return {"resources": listed, **CACHING}


async def list_templates(call: Call) -> Any:
    return {"resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json"}], **CACHING}


async def read_resource(call: Call) -> Any:
    uri = msgspec.json.decode(call.arguments or b"{}").get("uri")
    if held := STATIC.get(uri):
        return {"contents": [{"uri": uri, **held}], **CACHING}
    if found := _FROM_TEMPLATE.fullmatch(str(uri)):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        content = {"uri": uri, "mimeType": "application/json", "text": msgspec.json.encode(data).decode()}
        return {"contents": [content], **CACHING}
    raise ProtocolError(-32602, "Resource not found", {"uri": uri})


def _message(content: Json) -> Json:
    return {"role": "user", "content": content}


def _prompt(name: str, description: str, *arguments: str) -> Json:
    return {
        "name": name,
        "description": description,
        "arguments": [{"name": argument, "description": argument, "required": True} for argument in arguments],
    }


PROMPTS = (
    _prompt("test_simple_prompt", "A prompt without arguments"),
    _prompt("test_prompt_with_arguments", "A prompt with arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "A prompt with a resource", "resourceUri"),
    _prompt("test_prompt_with_image", "A prompt with a picture"),
    _prompt("test_input_required_result_prompt", "A prompt that asks the user first"),
)


async def list_prompts(call: Call) -> Any:
    return {"prompts": PROMPTS, **CACHING}


async def get_prompt(call: Call) -> Any:
    params = msgspec.json.decode(call.arguments or b"{}")
    given: Json = params.get("arguments") or {}
    match params.get("name"):
        case "test_simple_prompt":
            messages = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            messages = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
            messages = [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            messages = [IMAGE, text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            context = accepted(params.get("inputResponses") or {}, "user_context", "context")
            if context is None:
                return input_required({"user_context": form("What context should the prompt use?", context={"type": "string"})})
            messages = [text(f"Context: {context}")]
        case unknown:
            raise InvalidParams(f"no prompt {unknown!r}")
    return {"messages": [_message(content) for content in messages]}


async def complete(call: Call) -> Any:
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


async def nothing(call: Call) -> Any:
    return {}


METHODS: dict[str, Handler] = {
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": complete,
}
LEGACY_METHODS: dict[str, Handler] = {"resources/subscribe": nothing, "resources/unsubscribe": nothing}
