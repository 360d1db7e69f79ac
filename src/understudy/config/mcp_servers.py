"""`[mcp_servers]`: other MCP servers whose tools the model may use. A wrong type is an error; a wrong name disables one server."""

import re
from collections.abc import Mapping
from typing import Literal, cast

import msgspec

from understudy.config.schema import Mismatch, TreeReader

ApprovalMode = Literal["auto", "prompt", "writes", "approve"]
APPROVAL_MODES = ("auto", "prompt", "writes", "approve")

STARTUP_SECONDS = 30.0
TOOL_SECONDS = 300.0
_LONGEST_SECONDS = 7 * 24 * 3600.0
_NAME = r"[a-zA-Z0-9_:@/.-]+"
_LONGEST_NAME = 200
_EVERY = "*"


class McpServer(msgspec.Struct, frozen=True):
    """One of them. A server has a command or a url."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    env_vars: tuple[str, ...] = ()  # names of our own variables that it gets
    cwd: str | None = None
    url: str | None = None
    bearer_token_env_var: str | None = None
    http_headers: Mapping[str, str] = {}
    env_http_headers: Mapping[str, str] = {}  # header -> the name of our variable with its value
    required: bool = False
    startup_seconds: float = STARTUP_SECONDS
    tool_seconds: float = TOOL_SECONDS
    enabled_tools: tuple[str, ...] | None = None  # None: all
    disabled_tools: tuple[str, ...] = ()
    approval_mode: ApprovalMode = "auto"
    tool_modes: Mapping[str, ApprovalMode] = {}
    sandboxed: bool = False
    roots: bool = False  # it is told the folder of the conversation
    problem: str | None = None  # why it cannot be started

    def mode_of(self, tool: str) -> ApprovalMode:
        return self.tool_modes.get(tool, self.approval_mode)

    def has_tool(self, tool: str) -> bool:
        """Whether the user allows this tool."""
        return (self.enabled_tools is None or tool in self.enabled_tools) and tool not in self.disabled_tools


def read_mcp_servers(read: TreeReader, *, enabled: bool = True) -> tuple[McpServer, ...]:
    """The enabled ones, by name; or those that are not enabled."""
    sandboxed = read.texts("understudy.mcp.sandboxed") or ()
    tables = read.named_tables("mcp_servers")
    readers = [(name, TreeReader(table, f"mcp_servers.{name}")) for name, table in sorted(tables.items())]
    found = [(_read(name, reader, sandboxed), reader.flag("enabled") is not False) for name, reader in readers]
    return tuple(server for server, is_enabled in found if is_enabled is enabled)


def _read(name: str, read: TreeReader, sandboxed: tuple[str, ...]) -> McpServer:
    command, url = read.text("command"), read.text("url")
    if not command and not url:
        raise Mismatch(
            read.full("command").removesuffix(".command"), "missing field `command`", "a table with `command` (or `url`)"
        )
    if command and url:
        raise read.mismatch("url", "invalid value: `url` beside `command`", "absent: a server is a program, or an address")
    if url and not url.startswith(("http://", "https://")):
        raise read.mismatch("url", "invalid value: an address without a scheme", "an address that begins with https:// or http://")
    return McpServer(
        name,
        command or None,
        read.texts("args") or (),
        read.text_table("env"),
        read.texts("env_vars") or (),
        read.text("cwd"),
        url or None,
        read.text("bearer_token_env_var"),
        read.text_table("http_headers"),
        read.text_table("env_http_headers"),
        required=read.flag("required") or False,
        startup_seconds=_startup_seconds(read),
        tool_seconds=_seconds(read, "tool_timeout_sec", read.amount("tool_timeout_sec")) or TOOL_SECONDS,
        enabled_tools=read.texts("enabled_tools"),
        disabled_tools=read.texts("disabled_tools") or (),
        approval_mode=_mode(read, "default_tools_approval_mode"),
        tool_modes=_tool_modes(read),
        sandboxed=_EVERY in sandboxed or name in sandboxed,
        roots=read.flag("roots") or False,
        problem=_problem_with(name),
    )


def _startup_seconds(read: TreeReader) -> float:
    milliseconds = read.amount("startup_timeout_ms")
    seconds = read.amount("startup_timeout_sec")
    if seconds is None and milliseconds is not None:
        seconds = milliseconds / 1000
    return _seconds(read, "startup_timeout_sec", seconds) or STARTUP_SECONDS


def _seconds(read: TreeReader, key: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds <= _LONGEST_SECONDS:
        raise read.mismatch(key, f"invalid value: `{seconds:g}`", "a number of seconds above 0, a week at most")
    return seconds


def _mode(read: TreeReader, key: str) -> ApprovalMode:
    return cast(ApprovalMode, read.choice(key, APPROVAL_MODES) or "auto")


def _tool_modes(read: TreeReader) -> Mapping[str, ApprovalMode]:
    tables = read.named_tables("tools")
    readers = {name: TreeReader(table, read.full(f"tools.{name}")) for name, table in tables.items()}
    return {name: _mode(tool, "approval_mode") for name, tool in readers.items() if tool.text("approval_mode") is not None}


def _problem_with(name: str) -> str | None:
    if not re.fullmatch(_NAME, name):
        return f"Invalid MCP server name '{name}': must match pattern ^[a-zA-Z0-9_:@/.-]+$"
    if len(name) > _LONGEST_NAME:
        return f"the name of an MCP server may have {_LONGEST_NAME} characters, and this one has {len(name)}"
    return None
