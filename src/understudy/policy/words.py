"""Reads shell scripts that consist only of words, and refuses all others.

Understands only what every POSIX shell reads the same way: plain words, 'single' and "double" quotes without expansions, joined by
`&&`, `||`, `;`, `|` or a new line. For anything else the answer is None, which means: ask.

Also finds every run of words that might be a command of its own, for rules that forbid or ask.

An allow rule trusts only what is fully understood. A deny rule has to look further: behind `env` and `timeout`, into the script of
a shell, and into scripts that are not understood. These findings may be too many and are never trusted.
"""

import re
from collections.abc import Iterator

MAX_LENGTH = 10_000
MAX_COMMANDS = 50

Words = tuple[str, ...]

# ASCII only: in some locales part of another character may be read as a quote. No `=` at the start of a word, because zsh replaces
# such a word by a program's path. Quotes must surround a whole word, so that no name can be assembled from pieces.
_TOKEN = re.compile(
    r"""[ \t]*(?:
        (?P<word> [A-Za-z0-9_./,:@%+-][A-Za-z0-9_./,:=@%+-]* ) (?=[ \t\n;|&]|\Z)
      | '(?P<single> [ -&(-~]* )' (?=[ \t\n;|&]|\Z)
      | "(?P<double> [ #%-\[\]-_a-~]* )" (?=[ \t\n;|&]|\Z)
      | (?P<operator> && | \|\| | [;|\n] )
      | (?P<end> \Z )
    )""",
    re.VERBOSE,
)
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")  # bare, and not an assignment


def names(text: str) -> frozenset[str]:
    """A table of names, written as one text."""
    return frozenset(text.split())


# `!`, `{` and `[[` cannot be words here
_RESERVED = names("if then elif else fi do done case esac while until for in select function time coproc")
_SHELL = re.compile(r"(?:(?:/usr)?/bin/)?(?:bash|sh|dash|zsh)")
_SCRIPT_OPTIONS = frozenset(("-c", "-lc"))


def split_script(script: str) -> tuple[Words, ...] | None:
    """The simple commands of a word-only script, in order; None if any part of it is not fully understood."""
    if len(script) > MAX_LENGTH:
        return None
    commands: list[Words] = []
    words: list[str] = []
    pending = ""  # the operator that still needs a command on its right
    position = 0
    while True:
        token = _TOKEN.match(script, position)
        if token is None:
            return None
        position = token.end()
        kind = token.lastgroup
        if kind in ("operator", "end"):
            operator = token["operator"] if kind == "operator" else ""
            if words:
                commands.append(tuple(words))
                if len(commands) > MAX_COMMANDS:
                    return None
                words = []
                pending = operator
            elif operator == "\n":
                continue  # a blank line, or a line break after `&&`, `||` or `|`
            elif operator or pending not in ("", ";", "\n"):
                return None
            if kind == "end":
                return tuple(commands) or None
            continue
        if not words and not (kind == "word" and _is_program(token["word"])):
            return None
        words.append(token[kind or "word"])


def script_of(argv: Words) -> str | None:
    """The script, if argv is exactly a known shell with one script: `bash -lc SCRIPT` and similar."""
    if len(argv) == 3 and argv[1] in _SCRIPT_OPTIONS and _SHELL.fullmatch(argv[0]):
        return argv[2]
    return None


def simple_commands(argv: Words) -> tuple[Words, ...] | None:
    """What would be run: the commands of a word-only script, or argv itself if it has no script. None: not understood."""
    script = script_of(argv)
    if script is not None:
        return split_script(script)
    if not argv or sum(map(len, argv)) > MAX_LENGTH:
        return None
    return (argv,)


def _is_program(word: str) -> bool:
    return word not in _RESERVED and not word.isdigit() and _PROGRAM.fullmatch(word) is not None


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
    """The command contains more than we examine."""


def runs_of_words(argv: Words) -> Iterator[Words]:
    """Raises `OutOfReach` after the first few thousand."""
    for count, run in enumerate(_runs(argv, 0)):
        if count >= MAX_RUNS:
            raise OutOfReach
        yield run


def program_name(word: str) -> str:
    """`/usr/bin/Git` becomes `git`, because some file systems ignore case."""
    return word.rpartition("/")[2].casefold()


def may_hide_commands(program: str) -> bool:
    """Whether the program runs what its arguments say."""
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
