"""`understudy mcp list`, `add` and `remove`: the servers in config.toml whose tools the model is offered.

Shows their settings without secrets: of variables and headers only the names.
"""

import difflib
import os
import shlex
import sys
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from understudy.cli.parsing import wrong_usage
from understudy.cli.running.surroundings import ANY_MODEL
from understudy.cli.settings import read_config
from understudy.cli.tell.terminal import one_line
from understudy.config.editing import edit_config_file, with_table, with_value, without
from understudy.config.file import read_config_file
from understudy.config.home import find_home
from understudy.config.mcp_servers import McpServer, read_mcp_servers
from understudy.config.project import read_project_layer
from understudy.config.schema import Mismatch, Tree, TreeReader
from understudy.errors import BadRequest, ConfigError
from understudy.policy.secrets import REDACTED, secret_pattern, without_secrets
from understudy.protocol.records import Overrides
from understudy.text import quote_command


class ListedServer(msgspec.Struct, frozen=True):
    name: str
    enabled: bool
    origin: str  # `config.toml`, `project`, or `settings` (a profile or `-c`)
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
    """Without what follows `--token` and the like, without values that look like tokens or are also in `env`."""
    words: list[Any] = without_secrets({"args": list(server.args)})["args"]
    pattern = secret_pattern(server.env.values())
    return tuple(pattern.sub(REDACTED, word) for word in words)


def shown_address(url: str) -> str:
    """Without a password, and without the query's values, in which services put keys."""
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


_SERVERS = "mcp_servers"
_SANDBOXED = ("understudy", "mcp", "sandboxed")


def run(options: Namespace) -> int:
    match options.action:
        case "add":
            return _add(options)
        case "remove":
            return _remove(options.names)
        case _:
            return _list(options)


# -- list


def _list(options: Namespace) -> int:
    config = read_config(options, Overrides(model=ANY_MODEL))
    own = _own(config.home)
    projects = read_project_layer(config.cwd, config.home, config.projects).servers
    servers = [(server, True) for server in config.mcp_servers] + [(server, False) for server in config.disabled_servers]
    listed = [
        listed_server(server, enabled=enabled, origin=_origin(server.name, own, projects))
        for server, enabled in sorted(servers, key=lambda each: each[0].name)
    ]
    if options.json:
        print(msgspec.json.encode(listed).decode())
        return 0
    for warning in config.warnings:
        print(f"understudy: {one_line(warning)}", file=sys.stderr)
    if not listed:
        print("No MCP servers are configured. `understudy mcp add NAME -- CMD …` adds one.", file=sys.stderr)
    width = max((len(one_line(server.name)) for server in listed), default=0)
    for server in listed:
        print(f"{one_line(server.name):{width}}  {_state(server):8}  {one_line(server.what)}{_more(server, width)}")
    return 0


def _own(home: Path) -> Mapping[str, Any]:
    return _servers_in(read_config_file(home).tree)


def _origin(name: str, own: Mapping[str, Any], projects: Mapping[str, Any]) -> str:
    if name in own:
        return "config.toml"
    return "project" if name in projects else "settings"  # a profile, or `-c`


def _state(server: ListedServer) -> str:
    if server.problem is not None:
        return "wrong"
    return "enabled" if server.enabled else "disabled"


def _more(server: ListedServer, width: int) -> str:
    notes: list[str] = []
    if server.problem is not None:
        notes.append(server.problem)
    if server.origin == "project":
        notes.append("named by the project, which you trust")
    if given := [*server.env, *server.env_vars]:
        notes.append(f"variables: {', '.join(given)}")
    if server.headers:
        notes.append(f"headers: {', '.join(server.headers)}")
    notes += [word for word in ("required", "sandboxed") if getattr(server, word)]
    return "".join(f"\n{'':{width}}            {one_line(note)}" for note in notes)


# -- add


def _add(options: Namespace) -> int:
    name: str = options.name
    table = _table(options)

    def change(text: str) -> str:
        if options.replace:
            text = without(text, (_SERVERS, name))
        if name in _servers_in(tomllib.loads(text)):
            raise BadRequest(f"there is a server `{name}` already; --replace puts this one in its place")
        return _with_sandboxed(with_table(text, (_SERVERS, name), table), name, sandboxed=options.sandboxed)

    def check(tree: Tree) -> None:
        try:
            server = next(each for each in read_mcp_servers(TreeReader(tree)) if each.name == name)
        except Mismatch as slip:
            raise BadRequest(f"`{slip.key}`: {slip.reason()}") from None
        if server.problem is not None:
            raise BadRequest(server.problem)

    path = edit_config_file(find_home(os.environ), change, check)
    print(f"added: {one_line(name)}, in {one_line(str(path))}")
    print(f"`understudy mcp test {shlex.quote(name)}` starts it and lists its tools.", file=sys.stderr)
    return 0


def _table(options: Namespace) -> dict[str, Any]:
    if bool(options.url) == bool(options.argv):
        wrong_usage("name a program (understudy mcp add NAME -- CMD …) or an address (--url URL), and not both")
    given: dict[str, Any] = {}
    if options.url:
        _refuse(options, "an address", "env", "env_var", "cwd", "sandboxed")
        given["url"] = options.url
    else:
        _refuse(options, "a program", "bearer_token_env_var", "header_env")
        given["command"], *arguments = options.argv
        given["args"] = arguments
    given |= {
        "cwd": options.cwd and os.path.abspath(os.path.expanduser(options.cwd)),
        "bearer_token_env_var": options.bearer_token_env_var,
        "env_vars": options.env_var,
        "required": options.required,
        "startup_timeout_sec": options.startup_timeout,
        "tool_timeout_sec": options.tool_timeout,
        "env_http_headers": _pairs(options.header_env, "--header-env HEADER=VARIABLE"),
        "env": _pairs(options.env, "--env NAME=VALUE"),
    }
    return {key: int(value) if isinstance(value, float) and value.is_integer() else value for key, value in given.items() if value}


def _refuse(options: Namespace, what: str, *names: str) -> None:
    for name in names:
        if getattr(options, name):
            wrong_usage(f"--{name.replace('_', '-')} is not for a server that is {what}")


def _pairs(given: list[str], form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            wrong_usage(f"{form} was expected, and a value without a name or `=` was given")  # the value may be a secret
        pairs[name] = value
    return pairs


def _servers_in(tree: Tree) -> Mapping[str, Any]:
    tables = tree.get(_SERVERS, {})
    if not isinstance(tables, Mapping):
        raise ConfigError(f"`{_SERVERS}` in config.toml is not a table: correct that first")
    return cast(Mapping[str, Any], tables)


def _with_sandboxed(text: str, name: str, *, sandboxed: bool) -> str:
    """Add the server to `understudy.mcp.sandboxed`, or remove it. `*` there means all servers, and stays."""
    listed = TreeReader(tomllib.loads(text)).texts(".".join(_SANDBOXED)) or ()
    if (name in listed) is sandboxed or ("*" in listed and sandboxed):
        return text
    left = [each for each in listed if each != name]
    if not left and not sandboxed:
        return without(text, _SANDBOXED)
    return with_value(text, _SANDBOXED, [*left, name] if sandboxed else left)


# -- remove


def _remove(names: list[str]) -> int:
    home = find_home(os.environ)
    own = _own(home)
    for name in names:
        if name not in own:
            raise BadRequest(_not_there(name, own, home))

    def change(text: str) -> str:
        for name in names:
            text = _with_sandboxed(without(text, (_SERVERS, name)), name, sandboxed=False)
        return text

    edit_config_file(home, change)
    for name in names:
        print(f"removed: {one_line(name)}")
    return 0


def _not_there(name: str, own: Mapping[str, Any], home: Path) -> str:
    if name in read_project_layer(Path.cwd(), home, {}).servers:
        return f"`{name}` is named by the project here, not by {home / 'config.toml'}: take it out of the project's own file"
    meant = difflib.get_close_matches(name, own, n=1, cutoff=0.6)
    there = f"; did you mean `{meant[0]}`?" if meant else "; `understudy mcp list` shows which there are"
    return f"there is no server `{name}` in {home / 'config.toml'}{there}"
