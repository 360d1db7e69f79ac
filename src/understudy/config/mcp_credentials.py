"""What `understudy mcp login` stores: for each address of an MCP server, its tokens and how to renew them.

In `understudy/mcp_credentials.json` (0600). Sent only to that address and its authorization server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.private_file import PrivateFile

_NAME = "mcp_credentials.json"


class McpCredentials(msgspec.Struct, frozen=True):
    """Tables as the authorization server wrote them."""

    tokens: Mapping[str, Any]
    client: Mapping[str, Any]
    metadata: Mapping[str, Any] | None = None
    server: str | None = None  # the authorization server
    expires_at: float | None = None  # seconds since the epoch


def read_credentials(state_dir: Path, url: str) -> McpCredentials | None:
    """None if there are none, or they are not valid. Raises `ConfigError` if others can read the file."""
    found = (_file(state_dir).read() or {}).get(url)
    try:
        return None if found is None else msgspec.convert(found, McpCredentials)
    except msgspec.ValidationError:
        return None


def write_credentials(state_dir: Path, url: str, credentials: McpCredentials | None) -> bool:
    """None removes them. Returns whether there were any. Raises `ConfigError`."""
    file = _file(state_dir)
    with file.locked():
        kept = file.read() or {}
        had = kept.pop(url, None) is not None
        if credentials is not None:
            kept[url] = msgspec.to_builtins(credentials)
        if had or credentials is not None:
            file.write(kept)
    return had


def _file(state_dir: Path) -> PrivateFile:
    return PrivateFile(state_dir / _NAME, secret=True)
