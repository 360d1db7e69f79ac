"""The tool server of the mcp_* recordings: a few tools with fixed answers, over stdio."""

import json
import sys
import time
from typing import Any

STRING: dict[str, Any] = {"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [{"name": name, "inputSchema": STRING if name == "ok" else NOTHING} for name in ("ok", "fails", "refuses", "hangs")]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "tiny", "version": "1"}
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    return call(params) if method == "tools/call" else None


def call(params: dict[str, Any]) -> dict[str, Any] | None:
    match params["name"]:
        case "ok":
            said = "got " + json.dumps(params.get("arguments"))
            return {"result": {"content": [{"type": "text", "text": said}], "structuredContent": {"said": said}}}
        case "fails":
            return {"result": {"content": [{"type": "text", "text": "it failed"}], "isError": True}}
        case "refuses":
            return {"error": {"code": -32602, "message": "no such thing"}}
        case _:
            time.sleep(60)
            return None


for line in sys.stdin:
    message = json.loads(line)
    said = answer(message.get("method"), message.get("params", {}))
    if said and "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
