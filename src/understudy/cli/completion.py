"""`understudy completion`: a script with which a shell completes our commands, files, and ids of conversations.

shtab makes the scripts; the one for fish, which shtab does not know, is made here from the parser.
"""

from argparse import SUPPRESS, Action, Namespace
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from understudy.cli.commands import build_parser
from understudy.cli.parsing import Parser
from understudy.errors import AgentError

_BEGINNING = """\
# Completion of understudy for fish. Made by `understudy completion fish`.

function __understudy_after --description 'exactly these commands have been typed'
    set -l typed
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a typed $word
    end
    test (count $typed) -ge (count $argv); or return 1
    for number in (seq (count $argv))
        test $typed[$number] = $argv[$number]; or return 1
    end
end

function __understudy_next --description 'these commands have been typed, and the next word is due'
    set -l typed
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a typed $word
    end
    test (count $typed) -eq (count $argv); and __understudy_after $argv
end

function __understudy_ids
    understudy conversations --limit 0 2>/dev/null | string replace -f -r '^([0-9a-f][0-9a-f-]{7,}) .*' '$1'
end

complete -c understudy -f"""

# How to complete the values of an argument, by its name in the usage.
_VALUES = {"FILE": "-F", "DIR": "-a '(__fish_complete_directories)'", "ID": "-a '(__understudy_ids)'"}


def fish_script(parser: Parser) -> str:
    return "\n".join([_BEGINNING, *_commands(parser, ())]) + "\n"


def _commands(parser: Parser, path: tuple[str, ...]) -> Iterator[str]:
    here = " ".join(path)
    about = _abouts(parser)
    for name, below in parser.commands().items():
        yield f"complete -c understudy -n '__understudy_next {here}' -a {name} -d {_quote(about.get(name) or below.description)}"
    for action in parser.arguments():
        if action.option_strings:
            yield _option(action, here)
        elif not parser.commands() and (values := _values(action)):
            yield f"complete -c understudy -n '__understudy_after {here}' {values}"
    for name, below in parser.commands().items():
        yield from _commands(below, (*path, name))


def _abouts(parser: Parser) -> dict[str, str]:
    """The short description of each command; an alias has none."""
    return {choice.dest: choice.help or "" for action in parser.arguments() for choice in vars(action).get("_choices_actions", ())}


def _option(action: Action, here: str) -> str:
    parts = ["complete -c understudy", f"-n '__understudy_after {here}'" if here else "-n __understudy_next"]
    parts += [f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}" for option in action.option_strings]
    if action.nargs != 0:
        values = _values(action)
        parts.append(f"-r {values}" if values == "-F" else f"-x {values}".rstrip())
    if action.help and action.help != SUPPRESS:
        parts.append(f"-d {_quote(action.help)}")
    return " ".join(parts)


def _values(action: Action) -> str:
    if action.choices:
        return f"-a {_quote(' '.join(map(str, action.choices)))}"
    return _VALUES.get(str(action.metavar), "")


def _quote(text: str | None) -> str:
    return "'" + (text or "").replace("\\", "\\\\").replace("'", "\\'") + "'"


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
    """Tell shtab how to complete each argument's values, by its name in the usage."""
    for action in parser.arguments():
        if isinstance(action.metavar, str) and action.metavar in ways:
            vars(action)["complete"] = ways[action.metavar]
    for below in parser.commands().values():
        _mark(below, ways)
