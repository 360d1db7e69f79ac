"""Adds commands, and the arguments that several commands have."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

ID = "a conversation's id, or its first characters"


class CommandParsers(Protocol):
    def add_parser(self, name: str, *, help: str, description: str, aliases: Sequence[str] = ()) -> argparse.ArgumentParser: ...  # noqa: A002


def add(
    commands: CommandParsers, name: str, module: str, about: str, *, more: str = "", aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """`module`: relative to `cli`; `module:function` if several commands share a module."""
    file, _, function = module.partition(":")
    parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}. {more}".strip(), aliases=aliases)

    def act(options: argparse.Namespace) -> int:
        return getattr(import_module(f"understudy.cli.{file}"), function or "run")(options)

    parser.set_defaults(act=act)
    return parser


def add_json(parser: argparse.ArgumentParser, about: str = "as JSON") -> None:
    parser.add_argument("--json", action="store_true", help=about)


def add_id_or_last(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help=ID)
    parser.add_argument("--last", action="store_true", help="the conversation that was active last in this folder")


def add_overrides(parser: argparse.ArgumentParser, about: str = "set a key of config.toml", *, keep: bool = False) -> None:
    """`keep`: if nothing is given here, keep what was given before, to the command that has this action."""
    parser.add_argument(
        "-c",
        "--config",
        dest="overrides",
        action="append",
        default=argparse.SUPPRESS if keep else [],
        metavar="KEY=VALUE",
        help=f"{about}; dotted keys reach into tables, values are TOML",
    )


def add_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD …", help="the command and its arguments")


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, zero or more")
    return int(text)


def positive(text: str) -> int:
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is too few: at least 1 is needed")
    return number


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return seconds
