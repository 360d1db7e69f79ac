"""`understudy completion`: a script that lets a shell complete our commands, files, and ids of conversations."""

from argparse import Action, ArgumentParser, Namespace
from importlib import import_module
from typing import Any, cast

from understudy.cli.commands import build_parser
from understudy.errors import AgentError

IDS = "understudy conversations --limit 0 2>/dev/null | awk 'NR > 1 {print $1}'"
COMPLETE_IDS = {"bash": "_understudy_ids", "zsh": "_understudy_ids"}
PREAMBLE = {
    "bash": f'_understudy_ids() {{ compgen -W "$({IDS})" -- "$1"; }}',
    "zsh": f'_understudy_ids() {{ compadd -- ${{(f)"$({IDS})"}}; }}',
}


def run(options: Namespace) -> int:
    try:
        shtab: Any = import_module("shtab")
    except ImportError:
        raise AgentError("completion scripts need the package shtab: pip install shtab") from None
    parser = build_parser()
    _mark(parser, {"ID": COMPLETE_IDS, "FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    print(shtab.complete(parser, options.shell, preamble=PREAMBLE))
    return 0


def _mark(parser: ArgumentParser, ways: dict[str, dict[str, str]]) -> None:
    """Tell shtab by each argument's name in the usage how its values are completed."""
    for action in cast(list[Action], vars(parser)["_actions"]):
        if action.metavar in ways:
            vars(action)["complete"] = ways[action.metavar]
        for below in cast(dict[str, object], vars(action).get("_name_parser_map", {})).values():
            _mark(cast(ArgumentParser, below), ways)
