"""What the tests of other servers' tools share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

KINDS = str(Path(__file__).parent.parent / "golden" / "kinds_mcp.py")
PATIENT: dict[str, Any] = {"understudy.mcp.wait_seconds": 60}  # how long a busy machine takes is not what these tests are about


def server(name: str, mode: str = "kinds", **settings: Any) -> dict[str, Any]:
    """The configuration of a server that is our script in one of its modes."""
    return program(name, sys.executable, KINDS, mode, **settings)


def program(name: str, command: str, *args: str, **settings: Any) -> dict[str, Any]:
    prefix = f"mcp_servers.{name}"
    return {
        **PATIENT,
        f"{prefix}.command": command,
        f"{prefix}.args": list(args),
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def names_offered(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


def offered(request: dict[str, Any], name: str) -> dict[str, Any]:
    return next(tool["function"] for tool in request["tools"] if tool["function"]["name"] == name)
