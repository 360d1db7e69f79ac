"""MCP servers that a trusted project names in its `.mcp.json` or `.codex/config.toml`. A wrong one does not disable the others."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from understudy.config.keys import PROJECT_SERVER_KEYS
from understudy.config.mcp_servers import read_mcp_servers
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.errors import ConfigError

_SHAPE = '{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}}}}'
_VARIABLE = re.compile(r"\$\{\w{1,64}")
_encode = msgspec.json.Encoder().encode
_TYPES = ("stdio", "http", "streamable-http")  # also known from the command or url


def servers_in_json(path: str, content: bytes) -> dict[object, object]:
    """The tables of a `.mcp.json`, by name, with our own keys. Raises `ConfigError` if it is not valid."""
    try:
        tree = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot read {path}: {error}\nIt should be JSON of the shape {_SHAPE}.") from None
    servers = cast(dict[str, object], tree).get("mcpServers", {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f"cannot read {path}: it should be JSON of the shape {_SHAPE}.")
    return {name: _in_our_keys(table) for name, table in cast(dict[object, object], servers).items()}


def _in_our_keys(table: object) -> object:
    if not isinstance(table, dict):
        return table
    told = {key: value for key, value in cast(dict[str, Any], table).items() if value is not None}
    if "headers" in told:
        told["http_headers"] = told.pop("headers")
    if told.get("type") in _TYPES:
        del told["type"]
    return told


def check_servers(path: str, tables: Mapping[object, object]) -> tuple[dict[str, Tree], tuple[str, ...]]:
    """The usable ones, and what the user should know about the others and about ignored settings."""
    servers: dict[str, Tree] = {}
    warnings: list[str] = []
    for name, table in tables.items():
        try:
            servers[str(name)] = _checked(str(name), table, path)
        except Mismatch as slip:
            warnings.append(f"`{slip.key}` in {path} is not used: {slip.reason()}")
        else:
            warnings += _passed_over(str(name), cast(Tree, table), path)
    return servers, tuple(warnings)


def _checked(name: str, table: object, path: str) -> Tree:
    """Raises `Mismatch`."""
    key = f"mcp_servers.{name}"
    if isinstance(table, Mapping) and isinstance(kind := cast(Tree, table).get("type"), str):
        raise Mismatch(key, f"servers of the type `{kind}` are not supported", "a program (`stdio`) or an address (`http`)")
    if isinstance(table, Mapping):
        table = {each: value for each, value in cast(Tree, table).items() if each in PROJECT_SERVER_KEYS}
    found = read_mcp_servers(TreeReader({"mcp_servers": {name: table}}))
    if found and found[0].problem is not None:
        raise Mismatch(key, found[0].problem, "a table with a name of that kind")
    server = cast(dict[str, Any], table)
    return server if server.get("url") else {**server, "cwd": _place(path, server.get("cwd", ""))}


def _place(path: str, cwd: str) -> str:
    """The folder where a program runs: relative paths in a project's file start at the project's folder, wherever cwd is."""
    folder = os.path.realpath(path.removesuffix("/.mcp.json").removesuffix("/.codex/config.toml"))
    return cwd if cwd.startswith("~") else os.path.join(folder, cwd)


def _passed_over(name: str, table: Tree, path: str) -> Iterator[str]:
    for key in table:
        if key not in PROJECT_SERVER_KEYS:
            yield f"`mcp_servers.{name}.{key}` in {path} does not count: a project cannot set it, only your own configuration can"
        elif (named := _VARIABLE.search(_encode(table[key]).decode())) is not None:
            yield (
                f"`mcp_servers.{name}.{key}` in {path} has {named[0]}}}, which stays as it is: variables are not expanded for "
                "a project. Name the server in your own configuration, with `env_vars` or `bearer_token_env_var`"
            )
