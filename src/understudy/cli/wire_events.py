"""The events of the wire, told to a person: what a client shows of a call."""

import json
from collections.abc import Mapping
from typing import Any

from understudy.cli.telling import Teller
from understudy.protocol.changes import AddFile, DeleteFile, FileChange, UpdateFile


def tell_event(teller: Teller, msg: Mapping[str, Any]) -> None:
    """One event, by the `msg` of its notification. Questions are left out: they come as requests of their own."""
    match msg["type"]:
        case "agent_message":
            teller.message(msg["message"])
        case "agent_message_delta":
            teller.message_delta(msg["delta"])
        case "agent_reasoning":
            teller.thought(msg["text"])
        case "agent_reasoning_delta":
            teller.thought_delta(msg["delta"])
        case "exec_command_begin":
            teller.command(msg["call_id"], msg["command"])
        case "exec_command_output_delta":
            teller.output(msg["call_id"], msg["stream"], bytes(msg["chunk"]))
        case "exec_command_end":
            seconds = msg["duration"]["secs"] + msg["duration"]["nanos"] / 1e9
            teller.command_ended(msg["call_id"], msg["stdout"], msg["stderr"], msg["exit_code"], seconds)
        case "patch_apply_begin":
            teller.patch({path: _change(change) for path, change in msg["changes"].items()})
        case "patch_apply_end":
            teller.patch_ended(msg["success"], msg["stderr"])
        case "mcp_tool_call_begin":
            call = msg["invocation"]
            teller.tool(f"{call['server']}: {call['tool']}", json.dumps(call["arguments"]))
        case "mcp_tool_call_end":
            result = msg["result"].get("Ok")
            parts = [{"text": msg["result"].get("Err", "")}] if result is None else result.get("content", [])
            text = "\n".join(part.get("text") or f"[{part.get('type')}]" for part in parts)
            teller.told(text, result is not None and not result.get("isError"))
        case "plan_update":
            teller.plan([(step["step"], step["status"]) for step in msg["plan"]], msg["explanation"])
        case "background_event":
            teller.notice(msg["message"])
        case "error":
            teller.failure(msg["message"])
        case _:
            pass


def _change(change: Any) -> FileChange:
    match change:
        case {"add": {"content": content}}:
            return AddFile(content)
        case {"update": {"unified_diff": diff, "move_path": target}}:
            return UpdateFile(diff, target)
        case _:
            return DeleteFile()
