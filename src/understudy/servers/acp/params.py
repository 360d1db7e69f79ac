"""Parameters of ACP's methods. Members that are not named here are ignored, as the protocol says."""

from typing import Any

import msgspec

from understudy.servers.stdio.line_door import read_params


class _Params(msgspec.Struct, rename="camel", kw_only=True):
    pass


class ClientInfo(_Params, kw_only=True):
    name: str = ""
    version: str | None = None


class Initialize(_Params, kw_only=True):
    protocol_version: int
    client_capabilities: dict[str, Any] | None = None
    client_info: ClientInfo | None = None


class NamedValue(_Params, kw_only=True):
    """A variable of a server's environment, or a header."""

    name: str
    value: str


class McpServer(_Params, kw_only=True):
    """A program (without a `type`, or with `stdio`), or an address."""

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] | None = None
    env: list[NamedValue] | None = None
    url: str | None = None
    headers: list[NamedValue] | None = None


class NewSession(_Params, kw_only=True):
    cwd: str
    mcp_servers: list[McpServer] | None = None
    additional_directories: list[str] | None = None


class OneSession(_Params, kw_only=True):
    session_id: str


class LoadSession(NewSession, kw_only=True):
    session_id: str


class ListSessions(_Params, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None


class Prompt(OneSession, kw_only=True):
    prompt: list[dict[str, Any]]


class SetMode(OneSession, kw_only=True):
    mode_id: str


class SetConfigOption(OneSession, kw_only=True):
    config_id: str
    value: str


class CancelRequest(_Params, kw_only=True):
    request_id: int | str


read = read_params
