"""What `understudy mcp login` keeps: for each address of an MCP server, the tokens that it was given and how they are renewed.

In `understudy/mcp_credentials.json` (0600). They are sent to that address and its own authorization server, and nowhere else.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from understudy.config.private_file import PrivateFile

_NAME = "mcp_credentials.json"


class McpCredentials(msgspec.Struct, frozen=True):
    """Tables as the authorization server has written them."""

    tokens: Mapping[str, Any]
    client: Mapping[str, Any]
    metadata: Mapping[str, Any] | None = None
    server: str | None = None  # the authorization server
    expires_at: float | None = None  # seconds since the epoch


def read_credentials(state_dir: Path, url: str) -> McpCredentials | None:
    """None where there are none, or where what is there is no such thing. Raises `ConfigError` for a file that others can read."""
    found = (_file(state_dir).read() or {}).get(url)
    try:
        return None if found is None else msgspec.convert(found, McpCredentials)
    except msgspec.ValidationError:
        return None


def write_credentials(state_dir: Path, url: str, credentials: McpCredentials | None) -> bool:
    """None removes them. Whether there were any. Raises `ConfigError`."""
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
