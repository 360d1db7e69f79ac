"""What a model was sent, in words that know no wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast


def shown(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who said what, in order: messages, calls and outputs, without the instructions and the context that go before them."""
    if "messages" in request:
        told = [one for message in request["messages"] if message["role"] != "system" for one in _chat(message)]
    else:
        told = [_item(item) for item in request["input"]]
    return [one for one in told if not one[1].startswith("<")]


def _chat(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    if isinstance(message["content"], list):
        blocks = cast(list[Mapping[str, Any]], message["content"])
        return [_block(message["role"], block) for block in blocks]
    if message["role"] == "tool":
        return [("output", message["content"])]
    if message.get("tool_calls"):
        return [("call", call["function"]["arguments"]) for call in message["tool_calls"]]
    return [(message["role"], message["content"])]


def _block(role: str, block: Mapping[str, Any]) -> tuple[str, str]:
    """Of Anthropic's messages."""
    match block["type"]:
        case "tool_use":
            return "call", json.dumps(block["input"])
        case "tool_result":
            content = block["content"]
            return "output", content if isinstance(content, str) else "".join(part["text"] for part in content)
        case _:
            return role, block["text"]


def _item(item: Mapping[str, Any]) -> tuple[str, str]:
    match item["type"]:
        case "message":
            return item["role"], "".join(part["text"] for part in item["content"])
        case "function_call":
            return "call", item["arguments"]
        case "function_call_output":
            return "output", item["output"]
        case other:
            return other, ""


def texts(request: Mapping[str, Any]) -> str:
    return "\n".join(text for _, text in shown(request))


def entries(request: Mapping[str, Any]) -> list[Any]:
    """All that is sent of a conversation, with what goes before it."""
    return list(request["messages"] if "messages" in request else request["input"])


def begins_like(request: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether everything that was sent before is sent again, in front and unchanged."""
    known = entries(before)
    constant = ("instructions", "tools", "model")
    return entries(request)[: len(known)] == known and all(request.get(key) == before.get(key) for key in constant)
