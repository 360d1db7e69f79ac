"""The commands that only read, and the options with which they do: an option that is not listed is not known to be harmless."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from understudy.policy.readable import is_inside, may_read, resolve
from understudy.policy.words import Words, names, script_of, simple_commands


class Options(msgspec.Struct, frozen=True):
    """Options by how they are written. Long names must be given in full, because an abbreviation could mean another one."""

    flags: str = ""  # letters without a value, which may be combined
    valued: str = ""  # letters with a value, attached or as the next word
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()  # `--name=VALUE` or `--name VALUE`
    long_optional: frozenset[str] = frozenset()  # `--name` or `--name=VALUE`


class Parsed(msgspec.Struct, frozen=True):
    given: frozenset[str]  # letters and long names
    operands: Words
    late: frozenset[str]  # options after the first operand: some systems take these as operands


def parse_options(known: Options, args: Words) -> Parsed | None:
    """None if a word that begins with `-` is not fully known."""
    given: set[str] = set()
    late: set[str] = set()
    operands: list[str] = []
    rest = iter(args)
    for word in rest:
        if word == "--":
            operands.extend(rest)
            break
        if len(word) < 2 or word[0] != "-":
            operands.append(word)
            continue
        names = _long(known, word) if word[1] == "-" else _cluster(known, word)
        if names is None:
            return None
        named, needs_value = names
        given.update(named)
        if operands:
            late.update(named)
        if needs_value and next(rest, None) is None:
            return None
    return Parsed(frozenset(given), tuple(operands), frozenset(late))


def _long(known: Options, word: str) -> tuple[tuple[str, ...], bool] | None:
    name, equals, _ = word[2:].partition("=")
    if name in known.long_flags:
        return None if equals else ((name,), False)
    if name in known.long_valued:
        return (name,), not equals
    if name in known.long_optional:
        return (name,), False
    return None


def _cluster(known: Options, word: str) -> tuple[tuple[str, ...], bool] | None:
    for at, letter in enumerate(word[1:], start=1):
        if letter in known.valued:
            return tuple(word[1 : at + 1]), at == len(word) - 1
        if letter not in known.flags:
            return None
    return tuple(word[1:]), False


Operands = Literal["paths", "pattern-then-paths", "anything", "names"]


class ReadingProgram(msgspec.Struct, frozen=True):
    """A program that reads the files that its operands name."""

    options: Options
    operands: Operands
    recursive: frozenset[str] = frozenset()  # options with which it walks folders
    walks: bool = False  # it always walks folders
    patterns: frozenset[str] = frozenset()  # options that contain the pattern, or need none


_READERS: dict[str, ReadingProgram] = {
    "cat": ReadingProgram(
        Options(
            flags="AbeEnstTuv",
            long_flags=names("show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"),
        ),
        "paths",
    ),
    "head": ReadingProgram(Options("qvz", "nc", names("quiet silent verbose"), names("lines bytes")), "paths"),
    "tail": ReadingProgram(Options("qvz", "nc", names("quiet silent verbose"), names("lines bytes")), "paths"),
    "wc": ReadingProgram(Options("cmlLw", long_flags=names("bytes chars lines words max-line-length")), "paths"),
    "nl": ReadingProgram(
        Options("p", "bdfhilnsvw", names("no-renumber"), names("body-numbering number-format number-width")), "paths"
    ),
    "ls": ReadingProgram(
        Options(
            "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
            "",  # `-I`, `-w` and `-T` take a value on some systems only
            names(
                "all almost-all human-readable si recursive reverse inode size directory full-time group-directories-first"
                " no-group numeric-uid-gid literal quote-name dereference file-type escape"
            ),
            names("sort time time-style ignore hide format indicator-style width"),
            names("color classify"),
        ),
        "paths",
        recursive=frozenset(("R", "recursive")),
    ),
    "grep": ReadingProgram(
        Options(
            "ivncloLqswxEFGPHhabr0123456789",
            "ABCem",
            names(
                "ignore-case no-ignore-case invert-match line-number count files-with-matches files-without-match only-matching"
                " quiet silent no-messages word-regexp line-regexp extended-regexp fixed-strings basic-regexp perl-regexp"
                " with-filename no-filename text byte-offset recursive"
            ),
            names("after-context before-context context regexp max-count include exclude exclude-dir binary-files"),
            names("color colour"),
        ),
        "pattern-then-paths",
        recursive=frozenset(("r", "recursive")),
        patterns=frozenset(("e", "regexp")),
    ),
    # `-z`, `--pre` and `--hostname-bin` run programs; `-f` and `--ignore-file` read other files; `-L` follows links out
    "rg": ReadingProgram(
        Options(
            "ivnNsSwxcloqFUPpHIau.0",
            "ABCegtTmrMjd",
            names(
                "ignore-case invert-match line-number no-line-number case-sensitive smart-case word-regexp line-regexp count"
                " count-matches files-with-matches files-without-match only-matching quiet fixed-strings multiline"
                " multiline-dotall pcre2 pretty with-filename no-filename heading no-heading hidden no-ignore no-ignore-vcs"
                " no-ignore-parent unrestricted text column trim vimgrep json stats files type-list no-config no-messages null"
                " one-file-system"
            ),
            names(
                "after-context before-context context regexp glob iglob type type-not max-count replace max-columns max-depth"
                " max-filesize threads sort sortr color colors encoding context-separator path-separator"
            ),
        ),
        "pattern-then-paths",
        walks=True,
        patterns=frozenset(("e", "regexp", "files", "type-list")),
    ),
    "pwd": ReadingProgram(Options("LP"), "names"),
    "which": ReadingProgram(Options("a"), "names"),
    "echo": ReadingProgram(Options(), "anything"),
    "true": ReadingProgram(Options(), "anything"),
    "false": ReadingProgram(Options(), "anything"),
}

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_OLD_HEAD = re.compile(r"-[0-9]{1,18}[bkmclqvz]*")
_OLD_TAIL = re.compile(r"[-+][0-9]{1,18}[bcl]?")
_MAY_FOLLOW = re.compile(r"[-+](?!-)[^/]*[fF]")
_PRINTED_LINES = re.compile(r"[0-9]{1,18}(?:,(?:[0-9]{1,18}|\$))?p")

_FIND_ALONE = names(
    "-print -print0 -ls -prune -quit -empty -true -false -depth -d -xdev -mount -not ! -a -and -o -or ( ) -executable -readable"
    " -writable -daystart -noleaf -nouser -nogroup"
)
_FIND_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size -mtime -mmin"
    " -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -printf"
)

PROGRAMS = frozenset(_READERS) | {"cd", "find", "sed", "bash"}
_MAX_PLACES = 8


@dataclass(slots=True)
class Surroundings:
    """Where commands would run, and facts that the model does not choose. A `cd` within a script changes `places`."""

    cwd: str
    project: tuple[str, ...]  # the conversation's folder and its writable roots, absolute and normal
    home: str = ""
    planted: frozenset[str] = frozenset()  # programs that the search path would find in the project
    places: set[str] = field(init=False)  # all folders it may run in: a `cd` may fail, or stay in a pipe

    def __post_init__(self) -> None:
        self.places = {resolve(self.cwd, "/")}

    def may_read(self, path: str) -> bool:
        return all(may_read(path, place, self.project) for place in self.places)

    def may_walk(self, path: str) -> bool:
        """Whether all below may be read: not if the folder is the user's home, or contains it."""
        if not self.may_read(path):
            return False
        return not any(is_inside(self.home or "/", (resolve(path, place),)) for place in self.places)

    def move(self, folder: str) -> bool:
        """Follow a `cd`; False if it leads out of what may be read."""
        if not self.may_read(folder):
            return False
        self.places |= {resolve(folder, place) for place in self.places}
        return len(self.places) <= _MAX_PLACES


def is_harmless(argv: Words, surroundings: Surroundings) -> bool:
    """Whether argv, or every command of `bash -lc SCRIPT`, only reads what may be read without a question.

    A login shell reads the user's own start-up files first. We accept that for this one form, which models are taught to use: the
    files are the user's, a command cannot write them without a question, and they are read inside the sandbox, too.
    """
    if script_of(argv) is not None and (argv[:2] != ("bash", "-lc") or "bash" in surroundings.planted):
        return False
    commands = simple_commands(argv)
    return commands is not None and all(is_harmless_command(command, surroundings) for command in commands)


def is_harmless_command(words: Words, surroundings: Surroundings) -> bool:
    """The same for one simple command, which a shell may run after those that are already part of `surroundings`."""
    program, args = words[0], words[1:]
    if program in surroundings.planted:
        return False
    special = _SPECIAL.get(program)
    if special is not None:
        return special(args, surroundings)
    reader = _READERS.get(program)
    if reader is None:
        return False
    if reader.operands == "anything":
        return True
    parsed = parse_options(reader.options, args)
    return parsed is not None and _reads_only(reader, parsed, surroundings)


def _reads_only(reader: ReadingProgram, parsed: Parsed, surroundings: Surroundings) -> bool:
    operands = parsed.operands
    if reader.operands == "names":
        return all(_NAME.fullmatch(name) for name in operands)
    if reader.operands == "pattern-then-paths":
        if parsed.late & reader.patterns:
            return False  # if options end at the first operand, this would be a file
        if not parsed.given & reader.patterns:
            operands = operands[1:]
    walks = reader.walks or bool(parsed.given & reader.recursive)
    allowed = surroundings.may_walk if walks else surroundings.may_read
    return all(path == "-" or allowed(path) for path in operands or (".",))


def _is_harmless_end(args: Words, surroundings: Surroundings, *, reader: ReadingProgram, old_form: re.Pattern[str]) -> bool:
    """`head` or `tail`. The first word may have the old form, in which no letter takes the next word as its value."""
    if args and old_form.fullmatch(args[0]):
        args = args[1:]
    parsed = parse_options(reader.options, args)
    # Other words with a leading plus are file names to some versions and an old form to others.
    return parsed is not None and not any(path[:1] == "+" for path in parsed.operands) and _reads_only(reader, parsed, surroundings)


def _is_harmless_head(args: Words, surroundings: Surroundings) -> bool:
    return _is_harmless_end(args, surroundings, reader=_READERS["head"], old_form=_OLD_HEAD)


def _is_harmless_tail(args: Words, surroundings: Surroundings) -> bool:
    """An `f` among the letters of the old form (`-5f`, `+5cf`, `-cf`) makes it follow the file for ever."""
    if any(_MAY_FOLLOW.match(word) for word in args):
        return False
    return _is_harmless_end(args, surroundings, reader=_READERS["tail"], old_form=_OLD_TAIL)


def _is_harmless_cd(args: Words, surroundings: Surroundings) -> bool:
    folders = args[1:] if args[:1] in (("--",), ("-L",), ("-P",)) else args
    return len(folders) == 1 and not folders[0].startswith(("-", "~")) and folders[0] != "" and surroundings.move(folders[0])


def _is_harmless_find(args: Words, surroundings: Surroundings) -> bool:
    rest = list(args[::-1])
    while rest and rest[-1] == "-P":
        rest.pop()
    folders: list[str] = []
    while rest and not rest[-1].startswith(("-", "(", ")", "!", ",")):
        folders.append(rest.pop())
    while rest:
        word = rest.pop()
        if word in _FIND_VALUED and rest:
            rest.pop()
        elif word not in _FIND_ALONE:
            return False
    return all(surroundings.may_walk(folder) for folder in folders or (".",))


def _is_harmless_sed(args: Words, surroundings: Surroundings) -> bool:
    """Only `sed -n N[,M]p FILE`: other scripts of sed may write files or run programs."""
    match args:
        case ("-n", lines, path):
            return bool(_PRINTED_LINES.fullmatch(lines)) and not path.startswith("-") and surroundings.may_read(path)
        case _:
            return False


_SPECIAL: dict[str, Callable[[Words, Surroundings], bool]] = {
    "cd": _is_harmless_cd,
    "find": _is_harmless_find,
    "head": _is_harmless_head,
    "sed": _is_harmless_sed,
    "tail": _is_harmless_tail,
}
