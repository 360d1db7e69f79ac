"""Checks on every frame a server sends: JSON-RPC's form, and MCP's own types where the method is one of MCP's.

The types are those of the official SDK, `mcp` from 2.3 on. Where it is not installed only JSON-RPC's form is checked.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal, cast

OUR_OWN = frozenset({"notifications/initial_state", "notifications/stream_disconnected"})  # not of MCP, in spite of their names

KNOWS_MCP = find_spec("mcp_types") is not None  # the SDK's types, a distribution of their own

Kind = Literal["response", "request", "notification"]


def kind_of(frame: Mapping[str, Any]) -> Kind:
    """Whether a frame of JSON-RPC is a response, a request or a notification."""
    if "method" not in frame:
        return "response"
    return "request" if "id" in frame else "notification"


class FrameChecker:
    """Collects in `faults` what is wrong with the frames shown to it."""

    def __init__(self) -> None:
        self.version = "2025-06-18"  # until `initialize` is answered
        self.faults: list[str] = []
        self._asked: dict[str | int, str] = {}

    def sent(self, message: Mapping[str, Any]) -> None:
        """Remember the request, to know what its answer must look like."""
        if "method" in message and "id" in message:
            self._asked[message["id"]] = message["method"]

    def received(self, frame: Any) -> None:
        """Check a frame of the server."""
        if not isinstance(frame, dict):
            self.faults.append(f"not an object: {frame!r}")
            return
        known = cast(dict[str, Any], frame)
        if fault := self._envelope(known) or (KNOWS_MCP and self._content(known)):
            self.faults.append(f"{fault}: {known!r}")

    def _envelope(self, frame: Mapping[str, Any]) -> str | None:
        if frame.get("jsonrpc") != "2.0":
            return "no jsonrpc 2.0"
        if kind_of(frame) == "response":
            if ("result" in frame) == ("error" in frame):
                return "a response has either result or error"
            if "id" not in frame:
                return "a response has an id"
        return None

    def _content(self, frame: Mapping[str, Any]) -> str | None:
        from mcp_types import methods
        from pydantic import ValidationError

        try:
            match kind_of(frame):
                case "response":
                    if "error" in frame:
                        return _check_error(frame["error"])
                    method = self._asked.pop(frame["id"], None)
                    if method is None:
                        return "an answer nobody waits for"
                    methods.validate_server_result(method, self.version, frame["result"])
                    if method == "initialize":
                        self.version = frame["result"]["protocolVersion"]
                case "request":
                    methods.parse_server_request(frame["method"], self.version, frame.get("params"))
                case "notification":
                    if frame["method"].startswith("notifications/") and frame["method"] not in OUR_OWN:
                        methods.parse_server_notification(frame["method"], self.version, frame.get("params"))
        except (ValidationError, KeyError, ValueError) as error:
            return f"{type(error).__name__} {error}"
        return None


def _check_error(error: Any) -> str | None:
    told = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    ok = isinstance(told.get("code"), int) and isinstance(told.get("message"), str)
    return None if ok else "an error has a code and a message"
