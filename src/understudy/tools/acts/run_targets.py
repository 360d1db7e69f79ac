"""Which files and programs a command may run, by its words. Rather too many than too few: what is found is only watched.

Looks at which folders are there, since a script may go to one of them first.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from understudy.policy.reach import OutOfReach, may_hide_commands, program_name, runs_of_words
from understudy.policy.words import Words, script_of, simple_commands
from understudy.tools.acts.wildcards import LONGEST, WILD, TooWide, Wildcards

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php|node|lua)[\d.]*|deno|bun|tsx|ts-node|rscript|osascript|[gm]?awk|source|\.")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_NODE = re.compile(r"node[\d.]*|bun|tsx|ts-node")
_PROGRAM = re.compile(r"[^\s\-=*?\[\]~#!][^\s=*?\[\]]*")
_AFTER_VARIABLE = re.compile(r"[A-Za-z_]\w*/(.+)")  # `$PWD/run.sh`, once it is taken apart
_SHELLS_OWN = re.compile(r"""[;&|<>()`{}$"'\\]""")
_BLANK = re.compile(r"\s")
_QUOTES = str.maketrans("", "", "'\"\\")
_ENDS = re.compile(r"[\s;&|<>()`{}$]+")  # of words, whatever a shell makes of them
_BREAKS = re.compile(r"[;&|<>()`{}$]+")
_READ_FROM = re.compile(r"""<\s*["']?([^\s;&|<>()"']+)""")
_MOST_WORDS = 10_000
_MOST_PARTS = 100
_MOST_FOLDERS = 16


class RunTargets(NamedTuple):
    files: tuple[str, ...]  # absolute; most of them are not there
    programs: tuple[str, ...]  # by their bare names


def find_run_targets(argv: Words, cwd: str) -> RunTargets:
    """Raises `TooWide`."""
    words: dict[str, None] = {}  # all of them, in order
    runs: dict[str, None] = {}  # those that may name what is run
    programs = dict.fromkeys(words[0] for words in (argv, *(simple_commands(argv) or ())) if "/" not in words[0])
    try:
        for run in runs_of_words(argv):
            words.update(dict.fromkeys(run))
            runs.update(dict.fromkeys(_may_run(run)))
            if _PROGRAM.fullmatch(run[0]) and "/" not in run[0]:
                programs[run[0]] = None
    except OutOfReach:  # too long or too deep to be taken apart: whatever it names may be run
        rest = dict.fromkeys(part for word in argv for part in _ENDS.split(word.translate(_QUOTES)) if part)
        words.update(rest)
        runs.update(rest)
    if len(words) > _MOST_WORDS:
        raise TooWide
    folders = _folders(words, cwd)
    wildcards = Wildcards()
    files = dict.fromkeys(path for word in runs for folder in folders for path in _paths(folder, word, wildcards))
    return RunTargets(tuple(files), tuple(programs))


def scripts_by_name(argv: Words) -> Iterator[str]:
    """What the command itself names as its program or script, whether it is there or not."""
    if "/" in argv[0]:
        yield argv[0]
    if _runs_a_file(argv[0]) and script_of(argv) is None and "-c" not in argv:
        yield from (word for word in argv[1:] if word and not word.startswith("-") and not re.search(r"\s", word))


def _runs_a_file(program: str) -> bool:
    return may_hide_commands(program) or _INTERPRETER.fullmatch(program_name(program)) is not None


def _may_run(run: Words) -> Iterator[str]:
    """A file that an ordinary program is given is data, and may change."""
    if "/" in run[0]:
        yield from _spellings(run[0])
    if not _runs_a_file(run[0]):
        return
    name = program_name(run[0])
    for before, word in pairwise(run):
        yield from _spellings(word)
        if "<" in word:
            yield from _READ_FROM.findall(word)  # `sh <run.sh`
        if _PYTHON.fullmatch(name):
            module = word.replace(".", "/") if before == "-m" else word
            yield from (f"{module}/__main__.py", *((f"{module}.py", f"{module}/__init__.py") if before == "-m" else ()))
        elif _NODE.fullmatch(name) and not word.startswith("-"):
            yield from (f"{word}.js", f"{word}/index.js")


def _spellings(word: str) -> Iterator[str]:
    """The word, and what a shell may make of it or of its parts."""
    yield from _meanings(word)
    if _SHELLS_OWN.search(word) and not _BLANK.search(word):  # with blanks it is a script, which is taken apart elsewhere
        for part in _BREAKS.split(word.translate(_QUOTES))[:_MOST_PARTS]:
            yield from _meanings(part)


def _meanings(word: str) -> Iterator[str]:
    yield word
    _, assigned, value = word.partition("=")
    if assigned and value:
        yield value
    if after := _AFTER_VARIABLE.fullmatch(word):
        yield after[1]
    if word.startswith("/"):
        yield word.lstrip("/")  # `${PWD}/run.sh`, once it is taken apart
    if word.startswith("~/"):
        yield os.path.expanduser(word)


def _folders(words: Iterable[str], cwd: str) -> list[str]:
    """Where relative names may start: the folder of the command, and those that it could change to."""
    found = [cwd]
    for name in dict.fromkeys(spelled for word in words if not _BLANK.search(word) for spelled in _spellings(word)):
        if name.startswith("-"):
            continue
        for folder in tuple(found):
            path = os.path.join(folder, name)
            if len(found) < _MOST_FOLDERS and os.path.isdir(path) and (path := os.path.normpath(path)) not in ("/", *found):
                found.append(path)
    return found


def _paths(folder: str, word: str, wildcards: Wildcards) -> Iterable[str]:
    path = os.path.join(folder, word)
    if not WILD.search(word) or (len(word) > LONGEST and (_BLANK.search(word) or _SHELLS_OWN.search(word))):
        return (path,)  # so long, and with what ends a word for a shell: a text in quotes
    return (path, *wildcards.matches(folder, word))
