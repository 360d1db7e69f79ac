"""What is shown of an MCP server's settings: everything but secrets. Of variables and headers only the names are told."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from understudy.config.mcp_servers import McpServer
from understudy.policy.quoting import quote_command
from understudy.policy.secrets import REDACTED, secret_pattern, without_secrets


class ListedServer(msgspec.Struct, frozen=True):
    name: str
    enabled: bool
    origin: str  # `config.toml`, `project`, or `settings`: a profile or `-c`
    problem: str | None
    command: str | None
    args: tuple[str, ...]
    cwd: str | None
    url: str | None
    env: tuple[str, ...]
    env_vars: tuple[str, ...]
    headers: tuple[str, ...]
    required: bool
    sandboxed: bool
    startup_timeout_sec: float
    tool_timeout_sec: float
    enabled_tools: tuple[str, ...] | None
    disabled_tools: tuple[str, ...]

    @property
    def what(self) -> str:
        return self.url or quote_command([self.command or "", *self.args])


def listed_server(server: McpServer, *, enabled: bool, origin: str) -> ListedServer:
    headers = [*server.http_headers, *server.env_http_headers]
    if server.bearer_token_env_var is not None:
        headers.append("Authorization")
    return ListedServer(
        name=server.name,
        enabled=enabled,
        origin=origin,
        problem=server.problem,
        command=server.command,
        args=_shown_arguments(server),
        cwd=server.cwd,
        url=None if server.url is None else shown_address(server.url),
        env=tuple(sorted(server.env)),
        env_vars=server.env_vars,
        headers=tuple(sorted(headers)),
        required=server.required,
        sandboxed=server.sandboxed,
        startup_timeout_sec=server.startup_seconds,
        tool_timeout_sec=server.tool_seconds,
        enabled_tools=server.enabled_tools,
        disabled_tools=server.disabled_tools,
    )


def _shown_arguments(server: McpServer) -> tuple[str, ...]:
    """Without what follows `--token` and the like, and without values that are plainly tokens or stand in `env` too."""
    words: list[Any] = without_secrets({"args": list(server.args)})["args"]
    pattern = secret_pattern(server.env.values())
    return tuple(pattern.sub(REDACTED, word) for word in words)


def shown_address(url: str) -> str:
    """Without a password and without the values of a query, which is where services put their keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REDACTED
    place = parts.netloc.rpartition("@")[2]
    if place != parts.netloc:
        place = f"{REDACTED}@{place}"
    query = "&".join(f"{pair.partition('=')[0]}={REDACTED}" if "=" in pair else REDACTED for pair in parts.query.split("&") if pair)
    path = secret_pattern(()).sub(REDACTED, parts.path)
    return urlunsplit((parts.scheme, place, path, query, ""))
