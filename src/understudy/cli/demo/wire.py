"""Shows what goes over the wire: a message per line, shortened, with bytes as text. Consecutive deltas become one line.

Also shows the events of a call as a client would.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from understudy.cli.demo.mcp_client import Direction, McpClient
from understudy.cli.tell.telling import Teller
from understudy.cli.tell.terminal import one_line
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile


def tell_event(teller: Teller, msg: Mapping[str, Any]) -> None:
    """One event, given the `msg` of its notification. Questions are left out, because they also come as requests."""
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


LONGEST_TEXT = 60
MOST_ITEMS = 6
_DELTAS = {"agent_message_delta": "delta", "agent_reasoning_delta": "delta", "exec_command_output_delta": "chunk"}

Show = Callable[[Direction, str], None]


class _Deltas:
    """Consecutive ones of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = ""
        self.count = 0


class WireLines:
    def __init__(self, show: Show) -> None:
        self._show = show
        self._held: dict[McpClient, _Deltas] = {}

    def take(self, client: McpClient, direction: Direction, message: dict[str, Any]) -> None:
        delta = _delta_of(message) if direction == "received" else None
        if delta is None:
            self._let_go(client)
            self._show(direction, f"{client.name}  {line_of(message)}")
            return
        kind, text = delta
        if client not in self._held or self._held[client].kind != kind:
            self._let_go(client)
            self._held[client] = _Deltas(kind)
        self._held[client].text += text
        self._held[client].count += 1

    def _let_go(self, client: McpClient) -> None:
        held = self._held.pop(client, None)
        if held is not None:
            times = f" × {held.count}" if held.count > 1 else ""
            self._show("received", f"{client.name}  {_joined(held.kind + times, {'delta': held.text})}")


def line_of(message: Mapping[str, Any]) -> str:
    """Its kind, then its content as JSON: bytes become text, long values are cut, and fields that every message has are left
    out."""
    params = message.get("params", {})
    match message:
        case {"method": str(method), "params": {"msg": {"type": str(kind), **rest}}}:
            return _joined(kind if method == kind else f"{method} {kind}", rest)
        case {"method": str(method), "id": number}:
            return _joined(f"{method} #{number}", params)
        case {"method": str(method)}:
            return _joined(method, params)
        case {"id": number, "error": error}:
            return _joined(f"error of #{number}", error)
        case _:
            return _joined(f"result of #{message.get('id')}", message.get("result"))


def _joined(what: str, held: object) -> str:
    return one_line(f"{what} {json.dumps(_shortened(held), ensure_ascii=False)}" if held else what)


def _delta_of(message: Mapping[str, Any]) -> tuple[str, str] | None:
    match message:
        case {"params": {"msg": {"type": str(kind)} as msg}} if kind in _DELTAS:
            value = cast(dict[str, Any], msg).get(_DELTAS[kind], "")
            return kind, str(value) if isinstance(value, str) else _decoded(value)
        case _:
            return None


def _shortened(value: Any) -> Any:
    match value:
        case str():
            return _short(value)
        case dict():
            return {name: _shortened(inner) for name, inner in cast(dict[str, Any], value).items()}
        case list():
            return _short_list(cast(list[Any], value))
        case _:
            return value


def _short_list(items: list[Any]) -> Any:
    if len(items) > MOST_ITEMS and all(isinstance(item, int) for item in items):
        return _short(_decoded(items))
    kept = [_shortened(item) for item in items[:MOST_ITEMS]]
    return [*kept, f"… {len(items) - MOST_ITEMS} more"] if len(items) > MOST_ITEMS else kept


def _decoded(numbers: object) -> str:
    try:
        return bytes(cast(list[int], numbers)).decode(errors="replace")
    except (ValueError, TypeError):
        return str(numbers)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
