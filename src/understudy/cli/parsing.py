"""The parser of the command line. For an unknown word it says what was probably meant, under the program name that was used."""

import argparse
import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from understudy import __version__
from understudy.servers.codex_version import CODEX_VERSION

CODEX = "codex"


def is_codex() -> bool:
    return os.path.basename(sys.argv[0]) == CODEX


def program_name() -> str:
    return CODEX if is_codex() else "understudy"


def version_text(command: str = "") -> str:
    """In the form that programs expect of codex, if that is the name under which we were started."""
    if not is_codex():
        return f"understudy {__version__}"
    return f"codex-cli{'-' if command else ''}{command} {CODEX_VERSION} (understudy {__version__})"


# Words that people know from other programs.
_OTHER_WORDS = {
    "continue": "resume",
    "history": "conversations",
    "list": "conversations",
    "ls": "conversations",
    "run": "sandbox",
    "server": "mcp-server",
    "sessions": "conversations",
    "threads": "conversations",
}
_LIKENESS = 0.65
_SURE = 0.85  # for dangerous options
_USAGE = 2  # the exit code for wrong usage


def wrong_usage(text: str) -> NoReturn:
    """For what no parser notices: options and arguments that do not go together. The text may repeat what was typed."""
    from understudy.text import strip_terminal_escapes

    print(f"understudy: {strip_terminal_escapes(text)}", file=sys.stderr)
    raise SystemExit(_USAGE)


class _Formatter(argparse.HelpFormatter):
    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if isinstance(action.metavar, str) and action.metavar.startswith("-- "):  # another program's words
            return action.metavar
        return super()._format_args(action, default_metavar)


class Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.formatter_class = _Formatter
        self.groups: Mapping[str, Sequence[str]] = {}  # headings in a long list of commands
        self.about_other_words: str | None = None  # shown instead of an unknown action's name, which is not repeated

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Errors are shown with the usage of the command that they belong to."""
        options, unknown = self.parse_known_args(words)
        if unknown:
            self._named_by(words).error(f"unrecognized arguments: {' '.join(unknown)}")
        return options

    def _named_by(self, words: Sequence[str]) -> "Parser":
        parser = self
        for word in words:
            parser = parser.commands().get(word, parser)
        return parser

    def format_usage(self) -> str:
        return self._with_optional_action(super().format_usage())

    def format_help(self) -> str:
        return self._grouped(self._with_optional_action(super().format_help()))

    def _grouped(self, text: str) -> str:
        """The list of commands under headings. Commands without a heading stay under "commands"."""
        if not self.groups or "\ncommands:\n" not in text:
            return text
        head, _, rest = text.partition("\ncommands:\n")
        listed, _, tail = rest.partition("\n\n")
        entries = _entries(listed)
        found = {heading: "".join(entries.pop(name, "") for name in names) for heading, names in self.groups.items()}
        found["commands"] = "".join(entries.values())
        return "\n".join((head, *(f"{heading}:\n{lines}" for heading, lines in found.items() if lines), tail))

    def _with_optional_action(self, text: str) -> str:
        """`conversations` also works without an action."""
        return text if self.get_default("act") is None else text.replace("ACTION ...", "[ACTION ...]", 1)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in cast(Iterable[object], action.choices)]
        if choices is None or value in choices:
            return
        meant = nearest(str(value), choices)
        if meant is None and self.about_other_words is not None:
            self.error(self.about_other_words)
        known = "" if meant else f" (choose from {', '.join(choices)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}" + (f"; did you mean `{meant}`?" if meant else known))

    def refuse_misspelt_options(self, words: Sequence[str]) -> None:
        """Checked first, because a word after an unknown option would be mistaken for a command."""
        parser = self
        for word in words:
            if word == "--" or (parser.takes_command and not word.startswith("-")):
                return
            if word.startswith("--"):
                name = word.partition("=")[0]
                known = [*parser.options(), *(self.options() if parser is not self else ())]
                if not any(option.startswith(name) for option in known) and (meant := nearest(name, known)):
                    parser.error(f"unrecognized option {name}; did you mean `{meant}`?")
            elif word in (below := parser.commands()):
                parser = below[word]

    @property
    def takes_command(self) -> bool:
        """Whether another program's words may follow."""
        return any(action.nargs == argparse.REMAINDER for action in self.arguments())

    def arguments(self) -> list[argparse.Action]:
        return cast(list[argparse.Action], vars(self)["_actions"])

    def options(self) -> list[str]:
        return [option for action in self.arguments() for option in action.option_strings if option.startswith("--")]

    def options_of(self, command: str) -> list[str]:
        below = self.commands().get(command)
        return [] if below is None else below.options()

    def commands(self) -> "Mapping[str, Parser]":
        """The possible commands, including aliases."""
        for action in self.arguments():
            if "_name_parser_map" in vars(action):
                return cast(Mapping[str, Parser], vars(action)["_name_parser_map"])
        return {}


def _entries(listed: str) -> dict[str, str]:
    """Each command with its lines from the formatter."""
    found: dict[str, str] = {}
    name = ""
    for line in listed.splitlines()[1:]:
        if line.startswith("    ") and not line.startswith("     "):
            name = line.split()[0]
            found[name] = ""
        found[name] += f"{line[2:]}\n"
    return found


def nearest(word: str, known: Sequence[str]) -> str | None:
    plain = word.lower().replace("_", "-")
    if _OTHER_WORDS.get(plain) in known:
        return _OTHER_WORDS[plain]
    bare = {name.lstrip("-"): name for name in known}  # all options have dashes, so these do not help to compare
    near = difflib.get_close_matches(plain.lstrip("-"), bare, n=1, cutoff=_LIKENESS)
    if not near or (is_dangerous(near[0]) and difflib.SequenceMatcher(None, plain.lstrip("-"), near[0]).ratio() < _SURE):
        return None
    return bare[near[0]]


def is_dangerous(option: str) -> bool:
    """Whether it removes protection of the machine: never suggested to somebody who may have meant something else."""
    return option.lstrip("-").startswith(("yolo", "full-auto", "dangerously"))
