"""The tool server of the mcp recordings of codex 0.153.4, and of tests: python3 kinds_mcp.py MODE

Modes: good, kinds, odd, many, pages, dies, hangstart, hanglist, floodstart, slowstart<seconds>.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
NOTHING: Json = {"type": "object", "properties": {}}
STRING: Json = {"type": "object", "properties": {"s": {"type": "string"}}}
SAID: Json = {**STRING, "required": ["s"]}
POINT: Json = {"type": "object", "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/P"}}}
ZOO: Json = {
    "type": "object",
    "$defs": {"P": POINT},
    "properties": {
        "p": {"$ref": "#/$defs/P"},
        "u": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "o": {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
        "t": {"type": ["string", "null"], "default": None, "title": "T", "minLength": 1, "pattern": "^a"},
        "e": {"enum": ["a", "b"]},
        "c": {"const": 3},
        "n": {"type": "integer", "minimum": 0, "format": "int32"},
        "any": True,
        "arr": {"type": "array"},
        "m": {"type": "object", "additionalProperties": {"type": "number"}},
        "d": {"description": "no type", "examples": [1]},
    },
    "required": ["p", "missing"],
    "additionalProperties": False,
    "$schema": "http://json-schema.org/draft-07/schema#",
}
TOP_ANY: Json = {"anyOf": [{"type": "object", "properties": {name: {"type": "string"}}} for name in ("a", "b")]}
REMOTE: Json = {"type": "object", "properties": {"r": {"$ref": "http://127.0.0.1:9/x.json"}}}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def tool(name: str, schema: Any = NOTHING, **more: Any) -> Json:
    return {"name": name, "inputSchema": schema, **more}


def odd_tools() -> list[Json]:
    names = ("a.b", "with space", "uml\u00e4ut", "slash/name", "x" * 90, "dup-x", "dup.x", "mcp__srv__nested", "shell")
    return [
        *map(tool, names),
        tool("refs", ZOO, description="schema zoo"),
        tool("topany", TOP_ANY),
        tool("nothing", {}),
        tool("noprops", {"type": "object"}),
        tool("remote", REMOTE),
    ]


def tools_of_every_kind() -> list[Json]:
    plain = ("fails", "refuses", "hangs", "crashes", "floods", "image", "resource", "empty")
    later = ("elicits", "progress", "env", "samples", "roots")
    return [
        tool("ok", SAID, description="says it back", annotations={"readOnlyHint": True}),
        *map(tool, plain),
        tool("structured", outputSchema={"type": "object", "properties": {"n": {"type": "integer"}}}),
        tool("deletes", annotations={"destructiveHint": True, "readOnlyHint": False}),
        *map(tool, later),
    ]


def tools() -> list[Json]:
    match MODE:
        case "odd":
            return odd_tools()
        case "many":
            return [tool(f"t{number:03d}", STRING, description=f"tool {number} " + "word " * 20) for number in range(200)]
        case "kinds":
            return tools_of_every_kind()
        case _:
            return [tool("ok", SAID)]


def send(message: Json) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(said: str) -> Json:
    return {"result": {"content": [{"type": "text", "text": said}]}}


def initialize(params: Json) -> Json:
    if MODE == "hangstart":
        time.sleep(300)
    if MODE.startswith("slowstart"):
        time.sleep(float(MODE[9:] or 3))
    return {
        "result": {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "kinds", "version": "1"},
            "instructions": "Server words: call ok first.",
        }
    }


def list_tools(params: Json) -> Json:
    if MODE == "hanglist":
        time.sleep(300)
    if MODE != "pages":
        return {"result": {"tools": tools()}}
    page = int(params.get("cursor") or 0)
    return {"result": {"tools": [tool(f"p{page}")], **({"nextCursor": str(page + 1)} if page < 3 else {})}}


RESOURCES: list[Json] = [
    {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
    {"type": "resource_link", "uri": "file:///b", "name": "b"},
]
IMAGE: list[Json] = [{"type": "text", "text": "a dot"}, {"type": "image", "data": PNG, "mimeType": "image/png"}]
ANSWERS: dict[str, Callable[[], Json]] = {
    "fails": lambda: {"result": {"content": [{"type": "text", "text": "it failed"}], "isError": True}},
    "refuses": lambda: {"error": {"code": -32602, "message": "no such thing"}},
    "floods": lambda: text("0123456789abcde\n" * 65536),
    "image": lambda: {"result": {"content": IMAGE}},
    "resource": lambda: {"result": {"content": RESOURCES}},
    "empty": lambda: {"result": {"content": []}},
    "structured": lambda: {"result": {"content": [{"type": "text", "text": '{"n": 1}'}], "structuredContent": {"n": 1}}},
    "env": lambda: text(" ".join(sorted(os.environ))),
}
ASKED: dict[str, Json] = {
    "elicits": {
        "method": "elicitation/create",
        "params": {
            "message": "Which colour?",
            "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
        },
    },
    "samples": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
    "roots": {"method": "roots/list"},
}
waiting: dict[str, Any] = {}  # our own questions, with the call that each is part of


def call(identifier: Any, params: Json) -> Json | None:
    name = params["name"]
    if name == "hangs":
        return None
    if name == "crashes":
        sys.exit(9)
    if name in ASKED:
        waiting[name] = identifier
        send({"id": name, **ASKED[name]})
        return None
    if name == "progress":
        meta: Json = params.get("_meta") or {}
        return report_progress(meta.get("progressToken"))
    return ANSWERS[name]() if name in ANSWERS else text("got " + json.dumps(params.get("arguments")))


def report_progress(token: Any) -> Json:
    for step in range(3):
        if token is not None:
            told = {"progressToken": token, "progress": step, "total": 3, "message": f"step {step}"}
            send({"method": "notifications/progress", "params": told})
    return text(f"token {token is not None}")


def messages() -> Iterator[Json]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    if MODE == "dies":
        sys.stderr.write("cannot start: no licence\n")
        sys.exit(3)
    if MODE == "floodstart":
        for _ in range(20_000):
            print("this is not json " * 20)
        sys.stdout.flush()
    for message in messages():
        method = message.get("method")
        params: Json = message.get("params") or {}
        if method is None and message.get("id") in waiting:
            said = json.dumps({key: message[key] for key in message if key in ("result", "error")})
            send({"id": waiting.pop(message["id"]), **text(said)})
            continue
        match method:
            case "initialize":
                answer: Json | None = initialize(params)
            case "tools/list":
                answer = list_tools(params)
            case "tools/call":
                answer = call(message["id"], params)
            case _:
                answer = {"error": {"code": -32601, "message": "unknown"}}
        if answer and "id" in message:
            send({"id": message["id"], **answer})


main()
