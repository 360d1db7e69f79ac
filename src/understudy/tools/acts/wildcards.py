"""Expands a shell's wildcards, within limits: a model writes them, and folders may have no end or lead back to themselves."""

import os
import re
from contextlib import suppress
from fnmatch import translate
from functools import lru_cache

from understudy.errors import ToolError

WILD = re.compile(r"[*?\[]")
LONGEST = 1_000  # characters of a word with wildcards
_MOST_CHARACTERS = 50_000  # of all such words of a command
_MOST_LOOKED_AT = 20_000  # names in folders that are looked at


class TooWide(ToolError):
    """The command may run more files than anybody could watch."""

    def __init__(self) -> None:
        super().__init__(
            "exec command rejected: it has too many words, or too many files may fit its wildcards, to watch what it runs."
            " Name fewer files, or run it in parts"
        )


class Wildcards:
    """All wildcards of one command."""

    def __init__(self) -> None:
        self._words: set[str] = set()
        self._characters = _MOST_CHARACTERS
        self._names = _MOST_LOOKED_AT

    def matches(self, folder: str, word: str) -> list[str]:
        """Existing paths that match the word, which starts at the folder if it is relative. Raises `TooWide`."""
        if word not in self._words:
            self._words.add(word)
            self._characters -= len(word)
        if len(word) > LONGEST or self._characters < 0:
            raise TooWide
        found = ["/" if word.startswith("/") else folder]
        for name in filter(None, word.split("/")):
            found = self._below(found, name) if WILD.search(name) else [os.path.join(folder, name) for folder in found]
        return [match for match in found if os.path.lexists(match)]

    def _below(self, folders: list[str], name: str) -> list[str]:
        pattern = _pattern(name)
        found: list[str] = []
        for folder in folders:
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                for entry in entries:
                    self._names -= 1
                    if self._names < 0:
                        raise TooWide
                    if pattern.match(entry.name) and (name.startswith(".") or not entry.name.startswith(".")):
                        found.append(os.path.join(folder, entry.name))
        return found


@lru_cache(maxsize=64)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(translate(name))
