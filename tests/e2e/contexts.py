"""What a model was sent, in words that know no wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def shown(request: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who said what, in order: messages, calls and outputs, without the instructions and the context that go before them."""
    if "messages" in request:
        told = [one for message in request["messages"][1:] for one in _chat(message)]
    else:
        told = [_item(item) for item in request["input"]]
    return [one for one in told if not one[1].startswith("<")]


def _chat(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    if message["role"] == "tool":
        return [("output", message["content"])]
    if message.get("tool_calls"):
        return [("call", call["function"]["arguments"]) for call in message["tool_calls"]]
    return [(message["role"], message["content"])]


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
