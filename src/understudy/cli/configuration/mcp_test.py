"""`understudy mcp test`: starts servers as a conversation begun here would, lists their tools, and says what is wrong."""

import asyncio
import difflib
import os
import signal
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.cli.configuration.mcp_configured import listed_server
from understudy.cli.ending import INTERRUPTED
from understudy.cli.running.surroundings import ANY_MODEL, tool_settings
from understudy.cli.settings import read_config
from understudy.cli.tell.terminal import one_line
from understudy.config.mcp_servers import McpServer
from understudy.config.model import Config
from understudy.engine.turn.other_servers import NOT_INSTALLED
from understudy.errors import BadRequest, ConfigError
from understudy.protocol.records import Overrides
from understudy.sandbox.cell import trees
from understudy.sandbox.runner import Sandbox
from understudy.store.place import prepare_folder

if TYPE_CHECKING:
    from understudy.tools.mcp.server import Server
    from understudy.tools.mcp.servers import Servers


class TestedTool(msgspec.Struct, frozen=True):
    name: str
    offered_as: str
    description: str
    read_only: bool


class TestedServer(msgspec.Struct, frozen=True):
    name: str
    works: bool
    error: str | None
    started_as: str  # without secrets
    seconds: float
    tools: tuple[TestedTool, ...]
    warnings: tuple[str, ...]


def run(options: Namespace) -> int:
    config = read_config(options, Overrides(model=ANY_MODEL))
    chosen = _chosen(config, options.names)
    for warning in config.warnings:
        print(f"understudy: {one_line(warning)}", file=sys.stderr)
    if not chosen:
        print("No MCP servers are enabled here. `understudy mcp list` shows those that are not.", file=sys.stderr)
        return 0
    try:
        import_module("understudy.tools.mcp.servers")
    except ImportError:
        raise ConfigError(NOT_INSTALLED) from None
    prepare_folder(config.state_dir)
    private_tmp = config.state_dir / "tmp" / f"mcp-test-{uuid.uuid4()}"
    private_tmp.mkdir(mode=0o700, parents=True)
    try:
        tested = asyncio.run(_test(config, chosen, private_tmp, quiet=options.json))
    finally:
        trees.set_aside(str(private_tmp))
        trees.remove_set_aside(str(private_tmp.parent))
    if tested is None:
        return INTERRUPTED
    if options.json:
        print(msgspec.json.encode(tested).decode())
    return 0 if all(server.works for server in tested) else 1


def _chosen(config: Config, names: Sequence[str]) -> tuple[McpServer, ...]:
    """A disabled server can be tested, too, by its name."""
    if not names:
        return config.mcp_servers
    known = {server.name: server for server in (*config.mcp_servers, *config.disabled_servers)}
    for name in names:
        if name not in known:
            meant = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            there = f"did you mean `{meant[0]}`?" if meant else "`understudy mcp list` shows which there are"
            raise BadRequest(f"there is no MCP server `{name}`; {there}")
    return tuple(known[name] for name in dict.fromkeys(names))


async def _test(config: Config, chosen: tuple[McpServer, ...], private_tmp: Path, *, quiet: bool) -> list[TestedServer] | None:
    """None if the person ended it. Reports each server as soon as it is ready or has failed."""
    testing = asyncio.ensure_future(_test_all(config, chosen, private_tmp, quiet=quiet))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, testing.cancel)
    try:
        return await testing
    except asyncio.CancelledError:
        return None


async def _test_all(config: Config, chosen: tuple[McpServer, ...], private_tmp: Path, *, quiet: bool) -> list[TestedServer]:
    async with _opened(config, chosen, private_tmp) as servers:
        began = time.monotonic()
        servers.begin()

        async def seconds_until_decided(server: "Server") -> float:
            await server.started()
            return time.monotonic() - began

        seconds = await asyncio.gather(*(seconds_until_decided(server) for server in servers.servers.values()))
        servers.update()
        tested = [_tested(server, servers, each) for server, each in zip(servers.servers.values(), seconds, strict=True)]
    if not quiet:
        for server in tested:
            _print(server)
    return tested


@asynccontextmanager
async def _opened(config: Config, chosen: tuple[McpServer, ...], private_tmp: Path) -> AsyncGenerator["Servers"]:
    from understudy.tools.mcp.servers import open_servers

    sandbox = Sandbox()
    settings = tool_settings(config, private_tmp)
    servers = open_servers(chosen, sandbox, settings.cwd, os.environ, settings.containment, frozenset(), config.state_dir)
    try:
        yield servers
    finally:
        await servers.close()
        await sandbox.close()


def _tested(server: "Server", servers: "Servers", seconds: float) -> TestedServer:
    tools = tuple(
        TestedTool(tool.name, servers.name_of(tool), tool.description, tool.read_only)
        for tool in (server.tools if server.available else ())
    )
    error = None if server.available else server.error or "it could not be started"
    warnings = tuple(_warnings(server.settings, [tool.name for tool in tools])) if error is None else ()
    started_as = listed_server(server.settings, enabled=True, origin="").what
    return TestedServer(server.name, error is None, error, started_as, round(seconds, 3), tools, warnings)


def _warnings(settings: McpServer, tools: Sequence[str]) -> Iterator[str]:
    """Only about tools that are offered: we are not told of the others."""
    for name in settings.enabled_tools or ():
        if name not in tools and name not in settings.disabled_tools:
            yield f"`enabled_tools` names `{name}`, which it does not have"
    if not tools:
        yield "it has no tools" if settings.enabled_tools is None and not settings.disabled_tools else "none of its tools is left"


def _print(server: TestedServer) -> None:
    if server.error is not None:
        print(f"{one_line(server.name)}: does not work: {one_line(server.error)}")
        print(f"  started as: {one_line(server.started_as)}")
        return
    count = "1 tool" if len(server.tools) == 1 else f"{len(server.tools)} tools"
    print(f"{one_line(server.name)}: works, {count}, ready after {server.seconds:.1f} s")
    for tool in server.tools:
        first = tool.description.strip().splitlines()[:1]
        about = f": {one_line(first[0])}" if first else ""
        print(f"  {one_line(tool.offered_as)}{' (read-only)' if tool.read_only else ''}{about}")
    for warning in server.warnings:
        print(f"  {one_line(warning)}")
