"""What has been said so far as a file that hooks may read: lines of JSON in the form of their family, for the user alone."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.hooks.entries import Family, Hook
from understudy.engine.log.fold import State
from understudy.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning

_FAMILIES: tuple[Family, ...] = ("claude", "codex")
_INSIDE = "/tmp"  # what the folder is to a contained hook


class Transcript:
    """It grows with the conversation. After a summary it has what the model still has."""

    def __init__(self, folder: Path, conversation_id: str) -> None:
        self._folder = folder
        self._conversation_id = conversation_id
        self._written = 0  # the last record of which it has something
        self._wanted: set[Family] = set()

    def path_for(self, hook: Hook, *, contained: bool) -> str:
        self._wanted.add(hook.file.family)
        return f"{_INSIDE if contained else self._folder}/{_name(hook.file.family)}"

    def write(self, state: State) -> None:
        """What is new. A disk that is full keeps no hook from running: its file ends early."""
        history = state.history
        new = [item for item, source in zip(history.items, history.sources, strict=True) if source > self._written]
        if not new and self._written:
            return
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            for family in _FAMILIES:
                lines = b"".join(line for item in new for line in self._lines(family, item))
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_APPEND if self._written else os.O_TRUNC)
                descriptor = os.open(self._folder / _name(family), flags, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(lines)
        except OSError:
            return
        self._written = max((source for source in history.sources), default=0) or 1

    def _lines(self, family: Family, item: Item) -> Iterator[bytes]:
        told = _for_claude(item) if family == "claude" else _for_codex(item)
        if told is None:
            return
        if family == "claude":
            told |= {"sessionId": self._conversation_id}
        yield msgspec.json.encode(told) + b"\n"


def _name(family: Family) -> str:
    return f"transcript-{family}.jsonl"


def _for_codex(item: Item) -> dict[str, Any] | None:
    match item:
        case Message(role=role):
            kind = "output_text" if role == "assistant" else "input_text"
            payload = {"type": "message", "role": role, "content": [{"type": kind, "text": item.text()}]}
        case FunctionCall(call_id=call_id, name=name, arguments=arguments):
            payload = {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}
        case FunctionCallOutput(call_id=call_id, output=output):
            payload = {"type": "function_call_output", "call_id": call_id, "output": output}
        case Reasoning():
            return None
    return {"type": "response_item", "payload": payload}


def _for_claude(item: Item) -> dict[str, Any] | None:
    match item:
        case Message(role=role):
            who = "assistant" if role == "assistant" else "user"
            return {"type": who, "message": {"role": who, "content": [{"type": "text", "text": item.text()}]}}
        case FunctionCall(call_id=call_id, name=name, arguments=arguments):
            call = {"type": "tool_use", "id": call_id, "name": name, "input": _decoded(arguments)}
            return {"type": "assistant", "message": {"role": "assistant", "content": [call]}}
        case FunctionCallOutput(call_id=call_id, output=output):
            result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
            return {"type": "user", "message": {"role": "user", "content": [result]}}
        case Reasoning():
            return None


def _decoded(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
