"""The parser of the command line, which says what was probably meant where a word is not known."""

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

# What people type who have another program's word in mind.
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


class Parser(argparse.ArgumentParser):
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in cast(Iterable[object], action.choices)]
        if choices is None or value in choices:
            return
        meant = nearest(str(value), choices)
        known = "" if meant else f" (choose from {', '.join(choices)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}" + (f"; did you mean `{meant}`?" if meant else known))

    def refuse_misspelt_options(self, words: Sequence[str]) -> None:
        """Before anything else is said of them: what follows an option that is not known would be taken for a command."""
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

    def commands(self) -> "Mapping[str, Parser]":
        """What may follow, aliases too."""
        for action in self.arguments():
            if "_name_parser_map" in vars(action):
                return cast(Mapping[str, Parser], vars(action)["_name_parser_map"])
        return {}


def nearest(word: str, known: Sequence[str]) -> str | None:
    plain = word.lower().replace("_", "-")
    if _OTHER_WORDS.get(plain) in known:
        return _OTHER_WORDS[plain]
    near = difflib.get_close_matches(plain, known, n=1, cutoff=_LIKENESS)
    return near[0] if near else None
