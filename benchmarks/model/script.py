"""What the model says. Prompts name their answer: `bench:say;`, `bench:stream:20000:4;`, `bench:run:shell:true;`.

Answers are encoded once. Both wires say the same. A directive names the tool to be called, whatever the request offers: a row that
is called `shell` must not come to measure another one that a server offers too. Only patches are spelled by the server's dialect.
"""

import json
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Wire = Literal["responses", "chat"]
Dialect = Literal["seed", "modern"]  # patches go through `shell {command}`, or through `exec_command {cmd}`

DONE = "done"
READY = "ready"  # printed by a command that then waits to be cancelled
FLOOD_BYTES = 100_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

COMMANDS: dict[str, str] = {
    "true": "/bin/true",
    "sleep": f"echo {READY}; exec sleep 60",
    "flood": f"yes 0123456789abcdef0123456789abcdef | head -c {FLOOD_BYTES}",
    "flood10": "yes 0123456789abcdef0123456789abcdef | head -c 10000000",
    "read": "read answer",  # ends when a line is typed
}
FILE, EDITED, IMAGE = "notes.txt", "edited.txt", "dot.png"  # in the folder where a server works (benchmarks/client.py)
_STEPS = [{"step": "look", "status": "completed"}, {"step": "mend", "status": "in_progress"}]


class Asked(NamedTuple):
    """What a request wants: the words of its last directive, and whether a tool has answered since."""

    words: tuple[str, ...]
    after_tool: bool


def read_request(body: bytes) -> Asked:
    start = body.rfind(b"bench:")
    end = body.find(b";", start)
    if start < 0 or end < 0:
        return Asked(("say",), after_tool=False)
    answered = body.find(b'"role":"tool"', end) >= 0 or body.find(b"_call_output", end) >= 0
    return Asked(tuple(body[start + 6 : end].decode().split(":")), answered)


def framed(payload: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def whole(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _event(wire: Wire, event: dict[str, Any]) -> bytes:
    data = b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"
    return b"event: " + event["type"].encode() + b"\n" + data if wire == "responses" else data


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "bench-model",
        "choices": [choice],
    }


_CREATED = {"type": "response.created", "response": {"id": "resp_1"}}
_ITEM = {"type": "message", "id": "msg_1", "role": "assistant"}
_ADDED: dict[str, Any] = {"type": "response.output_item.added", "output_index": 0, "item": {**_ITEM, "content": []}}
_USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}


def opening(wire: Wire) -> bytes:
    if wire == "responses":
        return _event(wire, _CREATED) + _event(wire, _ADDED)
    return _event(wire, _chunk({"role": "assistant", "content": ""}))


def delta(wire: Wire, text: str) -> bytes:
    if wire == "chat":
        return _event(wire, _chunk({"content": text}))
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return _event(wire, {"type": "response.output_text.delta", **place, "delta": text})


def closing(wire: Wire, text: str) -> bytes:
    if wire == "responses":
        item = {**_ITEM, "content": [{"type": "output_text", "text": text}]}
        return _event(wire, {"type": "response.output_item.done", "output_index": 0, "item": item}) + _completed(wire)
    return _event(wire, _chunk({}, "stop")) + _completed(wire)


def _completed(wire: Wire) -> bytes:
    if wire == "responses":
        return _event(wire, {"type": "response.completed", "response": {"id": "resp_1", "usage": _USAGE}})
    counts = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return _event(wire, {"choices": [], "usage": counts}) + b"data: [DONE]\n\n"


@lru_cache
def say(wire: Wire, text: str = DONE) -> bytes:
    """The whole answer, ready to send."""
    return whole(opening(wire) + delta(wire, text) + closing(wire, text))


@lru_cache
def burst(wire: Wire, count: int, size: int) -> bytes:
    text = "x" * size
    return whole(opening(wire) + delta(wire, text) * count + closing(wire, text * count))


class Stream(NamedTuple):
    """An answer sent delta by delta: `piece` again and again, `times` times."""

    head: bytes
    piece: bytes
    times: int
    tail: bytes


@lru_cache
def stream(wire: Wire, count: int, size: int) -> Stream:
    text = "x" * size
    tail = framed(closing(wire, text * count)) + LAST_CHUNK
    return Stream(CHUNKED + framed(opening(wire)), framed(delta(wire, text)), count, tail)


@lru_cache
def call(wire: Wire, name: str, arguments: str) -> bytes:
    if wire == "responses":
        item = {"type": "function_call", "id": "fc_1", "call_id": f"call_{name}", "name": name, "arguments": arguments}
        done = _event(wire, {"type": "response.output_item.done", "output_index": 0, "item": item})
        return whole(_event(wire, _CREATED) + done + _completed(wire))
    function = {"name": name, "arguments": arguments}
    asked = _chunk({"tool_calls": [{"index": 0, "id": f"call_{name}", "type": "function", "function": function}]})
    return whole(_event(wire, asked) + _event(wire, _chunk({}, "tool_calls")) + _completed(wire))


def run(wire: Wire, tool: str, which: str) -> bytes:
    """A command, by the tool that is named."""
    command = COMMANDS[which]
    match tool:
        case "exec_command":
            return call(wire, tool, json.dumps({"cmd": command, "yield_time_ms": 30_000}))
        case "shell":
            argv = [command] if which == "true" else ["bash", "-c", command]
            return call(wire, tool, json.dumps({"command": argv, "timeout": 120_000}))
        case _:
            raise ValueError(f"no tool for commands is called {tool}")


def use(wire: Wire, tool: str, number: str) -> bytes:
    """Any other tool. `number`: which time it is, or, of `write_stdin`, the number of the session."""
    count = int(number)
    arguments: dict[str, dict[str, Any]] = {
        "read_file": {"path": FILE},
        "search": {"pattern": "needle"},
        "list_files": {"path": "."},
        "edit_file": {"path": EDITED, "old_text": "first\n", "new_text": f"first\n{count}\n"},
        "view_image": {"path": IMAGE},
        "update_plan": {"plan": _STEPS},
        "write_stdin": {"session_id": count, "chars": "go\n", "yield_time_ms": 30_000},
        "type_at": {"cmd": COMMANDS["read"], "tty": True, "yield_time_ms": 250},
    }
    return call(wire, "exec_command" if tool == "type_at" else tool, json.dumps(arguments[tool]))


def patch(wire: Wire, dialect: Dialect, number: str) -> bytes:
    text = f"*** Begin Patch\n*** Add File: made-{number}.txt\n+one\n+two\n*** End Patch"
    if dialect == "modern":
        return call(wire, "exec_command", json.dumps({"cmd": f"apply_patch <<'EOF'\n{text}\nEOF\n"}))
    return call(wire, "shell", json.dumps({"command": ["apply_patch", text]}))
