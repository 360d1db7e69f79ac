"""The commands and their arguments. Each command's work is in its own module, imported only when it is called."""

import argparse
import sys
from collections.abc import Sequence

from understudy import __version__


def run(words: Sequence[str]) -> int:
    """Parse and carry out. The exit code."""
    parser = build_parser()
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    return options.act(options)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="understudy", description="A coding agent that other programs call over MCP.")
    parser.add_argument("--version", action="version", version=f"understudy {__version__}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_mcp_server(commands)
    return parser


def _add_mcp_server(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    server = commands.add_parser("mcp-server", aliases=["mcp"], help="serve MCP on standard input and output")
    server.add_argument(
        "-c",
        "--config",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a key of config.toml for every session; dotted keys reach into tables, values are TOML",
    )
    server.set_defaults(command="mcp-server", act=_serve)


def _serve(options: argparse.Namespace) -> int:
    from understudy.config.overrides import parse_flag
    from understudy.errors import ConfigError
    from understudy.servers.mcp.first import serve

    try:
        overrides = [parse_flag(text) for text in options.overrides]
    except ConfigError as error:
        print(f"understudy: {error}", file=sys.stderr)
        return 2
    return serve(overrides)
