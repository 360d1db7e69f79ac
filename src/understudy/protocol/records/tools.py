"""Tools of other servers, and those of our own that are shown like them."""

from typing import Any

import msgspec

OWN_SERVER = "codex"  # as whose tools our own are shown that have no events of their kind


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False, tag="tool_call_began", omit_defaults=True):
    """Intent: on disk before another server is asked to do anything."""

    call_id: str
    server: str
    tool: str  # as the server calls it
    arguments: dict[str, Any] | None = None  # shortened, where they are long
    read_only: bool = False  # by what the server says of its tool


class ToolCallEnded(msgspec.Struct, frozen=True, gc=False, tag="tool_call_ended", omit_defaults=True):
    """`result` is what the tool gave, in the shape of MCP; where it gave nothing, `error` says why."""

    call_id: str
    server: str
    tool: str
    seconds: float
    arguments: dict[str, Any] | None = None
    read_only: bool = False
    result: dict[str, Any] | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.result is None or self.result.get("isError") is True

    def describe(self) -> str:
        """What the tool said, as text."""
        if self.result is None:
            return self.error or ""
        parts: list[dict[str, Any]] = self.result.get("content", [])
        return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in parts)


class ServersChecked(msgspec.Struct, frozen=True, gc=False, tag="servers_checked"):
    """Whose tools the model is offered from here on, and which servers are missing, with the reason."""

    ready: tuple[str, ...]
    missing: dict[str, str]

    def describe(self) -> str:
        """For people, in a line; empty where there is nothing to tell."""
        told = "; ".join(f"{server} ({why})" for server, why in self.missing.items())
        return f"MCP servers that are missing, and their tools with them: {told}" if told else ""
