"""Every run of words in a command that might be a command of its own, for rules that forbid or ask.

An allow rule trusts only what is fully understood. A deny rule has to look further: behind `env` and `timeout`, into the
script of a shell, and into scripts that are not understood. What is found here may be too much; it is never trusted.
"""

import re
from collections.abc import Iterator

from understudy.policy.words import Words, names, split_script

_SHELLS = names("ash bash busybox csh dash fish ksh mksh sh tcsh toybox zsh")
_WRAPPERS = names(
    "builtin caffeinate chroot chrt command coproc doas env eval exec fakeroot fd find firejail flock ionice ltrace nice nohup"
    " nsenter parallel perf proot runuser script setarch setpriv setsid stdbuf strace su sudo systemd-run taskset time timeout"
    " torsocks trace-cmd unbuffer unshare watch xargs xvfb-run"
)

MAX_RUNS = 4_000
_MAX_DEPTH = 6
_MAX_WORDS = 64
_BREAKS = re.compile(r"[;&|\n\r(){}<>`$]+")
_LOOKS_LIKE_SCRIPT = re.compile(r"[\s;&|]")
_UNQUOTED = str.maketrans("", "", "'\"\\")


class OutOfReach(Exception):
    """There is more in the command than is looked at."""


def runs_of_words(argv: Words) -> Iterator[Words]:
    """Raises `OutOfReach` after the first few thousand."""
    for count, run in enumerate(_runs(argv, 0)):
        if count >= MAX_RUNS:
            raise OutOfReach
        yield run


def program_name(word: str) -> str:
    """`/usr/bin/Git` is `git`: some file systems do not tell the difference."""
    return word.rpartition("/")[2].casefold()


def may_hide_commands(program: str) -> bool:
    """Whether it runs what its arguments say."""
    name = program_name(program)
    return name in _SHELLS or name in _WRAPPERS


def _runs(words: Words, depth: int) -> Iterator[Words]:
    if not words:
        return
    yield words
    if not may_hide_commands(words[0]):
        return
    yield from _tails(words[1:])
    for word in words[1:]:
        if _LOOKS_LIKE_SCRIPT.search(word):
            yield from _runs_of_script(word, depth + 1)


def _runs_of_script(script: str, depth: int) -> Iterator[Words]:
    if depth > _MAX_DEPTH:
        raise OutOfReach
    commands = split_script(script)
    if commands is not None:
        for command in commands:
            yield from _runs(command, depth)
        return
    for piece in _BREAKS.split(script.replace("\\\n", "")):
        yield from _tails(tuple(word.translate(_UNQUOTED) for word in piece.split()))


def _tails(words: Words) -> Iterator[Words]:
    for start in range(len(words)):
        yield words[start : start + _MAX_WORDS]
