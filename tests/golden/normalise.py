"""What changes from run to run, written as the recordings write it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from tests.golden.recording import Json, Step

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DELAY = re.compile(r"(retrying \d+/\d+ in )[^…]+…")
_DURATION = re.compile(r'("duration_seconds":)[0-9.]+')
_CHUNK = re.compile(r"^Chunk ID: [0-9a-f]{6}\nWall time: [0-9.]+ seconds\n")
_PLACEHOLDER = re.compile(r"<[a-z_]+(?:-\d+)?>")
_REFUSALS = ("Read-only file system", "Permission denied")  # a refused write, by the way a command is contained
_LONGEST_TEXT = 2500
_LONGEST_CHUNK = 200
_SHOWN = 40
_LONG_PROMPT = "word " * 40_000


class Placeholders:
    """Paths and ids of this run, by the names they have in the recordings."""

    def __init__(self, base: Path, server: str) -> None:
        here = Path(__file__).parent
        self._paths = {
            "<work>": str(base / "work"),
            "<home>": str(base / ".codex"),
            "<base>": str(base),
            "<server>": server,
            "<tiny_mcp>": str(here / "tiny_mcp.py"),
            "<kinds_mcp>": str(here / "kinds_mcp.py"),
        }
        self._ids: dict[str, str] = {}

    def fill(self, value: Any) -> Any:
        """A recorded value with the things of this run in place of their names."""
        if isinstance(value, str):
            if value.endswith(show(_LONG_PROMPT)[_SHOWN:]):
                return _LONG_PROMPT
            return _PLACEHOLDER.sub(lambda match: self._fill_one(match[0]), value)
        if isinstance(value, list):
            return [self.fill(item) for item in cast(list[Any], value)]
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in cast(Json, value).items()}
        return value

    def _fill_one(self, name: str) -> str:
        if name in self._paths:
            return self._paths[name]
        if name.startswith("<uuid-"):
            for found, given in self._ids.items():
                if given == name:
                    return found
            found = str(uuid4())  # one that the server has never seen
            self._ids[found] = name
            return found
        return name

    def name(self, value: Any) -> Any:
        """A value of this run with names in place of its paths, ids, times and long texts."""
        if isinstance(value, str):
            return show(self._name_text(value))
        if isinstance(value, list):
            return [self.name(item) for item in cast(list[Any], value)]
        if isinstance(value, dict):
            fields = cast(Json, value)
            if set(fields) == {"secs", "nanos"}:
                return {"secs": 0, "nanos": 0}
            if "tools" in fields:
                fields = fields | {"tools": without_descriptions(fields["tools"])}
            named = {self._name_text(key): self.name(item) for key, item in fields.items()}
            if isinstance(fields.get("chunk"), list):
                named["chunk"] = self._name_chunk(fields["chunk"])
            return named
        return value

    def _name_text(self, text: str) -> str:
        for name, path in self._paths.items():
            text = text.replace(path, name)
        text = _UUID.sub(lambda match: self._ids.setdefault(match[0], f"<uuid-{len(self._ids) + 1}>"), text)
        text = _DELAY.sub(r"\1<delay>…", text)
        text = text.replace(_REFUSALS[0], _REFUSALS[1])
        if "high demand" in text:
            return "<high demand>"  # the recorded server's wording for a provider that is down
        text = _CHUNK.sub("Chunk ID: <hex>\nWall time: <seconds> seconds\n", text)
        return _DURATION.sub(r"\g<1>0.0", text)

    def _name_chunk(self, chunk: list[int]) -> Any:
        data = bytes(chunk)
        for name, path in self._paths.items():
            data = data.replace(path.encode(), name.encode())
        data = data.replace(_REFUSALS[0].encode(), _REFUSALS[1].encode())
        return list(data) if len(data) <= _LONGEST_CHUNK else f"<{len(data)} bytes>"


def show(text: str) -> str:
    """A text as the recordings have it: a long one by its ends, length and digest."""
    if len(text) <= _LONGEST_TEXT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[:_SHOWN]}<{len(text)} characters, sha256 {digest}>{text[-_SHOWN:]}"


def without_descriptions(value: Any) -> Any:
    """Descriptions are prose, each server's own."""
    if isinstance(value, list):
        return [without_descriptions(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        fields = cast(Json, value)
        return {key: without_descriptions(item) for key, item in fields.items() if (key, type(item)) != ("description", str)}
    return value


def comparable_request(request: Json) -> Json:
    """Of a model request what is compared: where it went, the model, and what the model is shown.

    Offered tools are compared by name, as a superset; other keys are each server's own.
    """
    body = request["body"]
    shown = {"path": request["path"], "model": body["model"]}
    if "messages" in body:
        return shown | {"messages": body["messages"]}
    items = [{key: value for key, value in item.items() if (key, value) != ("id", None)} for item in body["input"]]
    return shown | {"instructions": body["instructions"], "input": items}


def offered_tools(request: Json) -> set[str]:
    return {tool.get("name") or tool.get("function", {}).get("name") or tool["type"] for tool in request["body"].get("tools", [])}


def hide_instructions(request: Json) -> Json:
    """Instructions are prose, each server's own; the recordings keep only those that a test gave."""
    if "instructions" in request:
        return request | {"instructions": "<instructions>"}
    first, *rest = request["messages"]
    return request | {"messages": [first | {"content": "<instructions>"}, *rest]}


def to_text(steps: Sequence[Any]) -> list[str]:
    """Steps as lines for a diff."""
    lines: list[str] = []
    for step in steps:
        shown: Any = {step.kind: step.value} if isinstance(step, Step) else step
        lines += json.dumps(shown, indent=1, sort_keys=True, default=repr, ensure_ascii=False).splitlines()
    return lines
