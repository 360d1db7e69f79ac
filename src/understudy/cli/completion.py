"""`understudy completion`: a script that lets a shell complete our commands, files, and ids of conversations."""

from argparse import Namespace
from importlib import import_module
from typing import Any

from understudy.cli.commands import build_parser
from understudy.cli.fish import fish_script
from understudy.cli.parsing import Parser
from understudy.errors import AgentError

IDS = "understudy conversations --limit 0 2>/dev/null | awk 'NR > 1 {print $1}'"
COMPLETE_IDS = {"bash": "_understudy_ids", "zsh": "_understudy_ids"}
PREAMBLE = {
    "bash": f'_understudy_ids() {{ compgen -W "$({IDS})" -- "$1"; }}',
    "zsh": f'_understudy_ids() {{ compadd -- ${{(f)"$({IDS})"}}; }}',
}


def run(options: Namespace) -> int:
    if options.shell == "fish":
        print(fish_script(build_parser()), end="")
        return 0
    try:
        shtab: Any = import_module("shtab")
    except ImportError:
        raise AgentError("completion scripts need the package shtab: pip install shtab") from None
    parser = build_parser()
    _mark(parser, {"ID": COMPLETE_IDS, "FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, options.shell, preamble=PREAMBLE))
    return 0


def _mark(parser: Parser, ways: dict[str, dict[str, str]]) -> None:
    """Tell shtab by each argument's name in the usage how its values are completed."""
    for action in parser.arguments():
        if isinstance(action.metavar, str) and action.metavar in ways:
            vars(action)["complete"] = ways[action.metavar]
    for below in parser.commands().values():
        _mark(below, ways)
