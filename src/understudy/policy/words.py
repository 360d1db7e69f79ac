"""Reads shell scripts that are made of words only, and refuses all others.

Only what every POSIX shell reads the same way is understood: plain words, 'single' and "double" quotes without anything
to expand, joined by `&&`, `||`, `;`, `|` or a new line. The answer for anything else is None, which means: ask.
"""

import re

MAX_LENGTH = 10_000
MAX_COMMANDS = 50

Words = tuple[str, ...]

# ASCII only: in some locales a byte of another character may be taken for a quote. No `=` at the start of a word: zsh looks
# such a word up as a program. A quote must begin and end its word, so that no name can be put together from pieces.
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
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-]+")  # bare, and no assignment


def names(text: str) -> frozenset[str]:
    """A table of names, written as one text."""
    return frozenset(text.split())


# `!`, `{` and `[[` are no words here to begin with
_RESERVED = names("if then elif else fi do done case esac while until for in select function time coproc")
_SHELL = re.compile(r"(?:(?:/usr)?/bin/)?(?:bash|sh|dash|zsh)")
_SCRIPT_OPTIONS = frozenset(("-c", "-lc"))


def split_script(script: str) -> tuple[Words, ...] | None:
    """The simple commands of a word-only script, in order; None where any part of it is not fully understood."""
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
    """The script, where a known shell is given one and nothing else: `bash -lc SCRIPT` and its kin."""
    if len(argv) == 3 and argv[1] in _SCRIPT_OPTIONS and _SHELL.fullmatch(argv[0]):
        return argv[2]
    return None


def simple_commands(argv: Words) -> tuple[Words, ...] | None:
    """What would be run: the commands of a word-only script, or argv itself where it is no script. None: not understood."""
    script = script_of(argv)
    if script is not None:
        return split_script(script)
    if not argv or sum(map(len, argv)) > MAX_LENGTH:
        return None
    return (argv,)


def _is_program(word: str) -> bool:
    return word not in _RESERVED and not word.isdigit() and _PROGRAM.fullmatch(word) is not None
