"""What a command stands on besides its words: the folder it runs in, and the programs and scripts that it names.

An approval is for these as they are when the question is put. What a program reads by itself (a Makefile, a package's
scripts) is not looked at.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from understudy.policy.reach import OutOfReach, may_hide_commands, program_name, runs_of_words
from understudy.policy.words import Words, script_of, simple_commands

Identity = tuple[int, int]  # device and inode

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php|node|lua)[\d.]*|deno|bun|tsx|ts-node|rscript|osascript|[gm]?awk|source|\.")
_MAX_FILES = 1_000
_MAX_BYTES = 1024 * 1024  # a larger file is told by its times


def standing(argv: Words, cwd: str, search_path: str = "") -> str:
    """Differs when the folder is another one, when what one of those files holds has changed, or a program is found elsewhere."""
    folder = _status(cwd)
    told = [f"{folder.st_dev}:{folder.st_ino}" if folder else ""]
    for path in dict.fromkeys(os.path.join(cwd, word) for word in _what_runs(argv)):
        if content := _content(path):
            told.append(content)
        if len(told) > _MAX_FILES:
            break
    for name in _looked_up(argv):
        found = _find(name, search_path, cwd)
        told.append(f"{found}:{_times(found)}" if found else "")
    return "\n".join(told)


def folders_of_ground(argv: Words, cwd: str, search_path: str = "") -> frozenset[Identity]:
    """Every folder in which something that the command stands on could be exchanged, by whoever may write there."""
    found: set[Identity] = set()
    paths = [cwd]
    for word in dict.fromkeys(_what_runs(argv)):
        path = os.path.join(cwd, word)
        if _status(path) is not None:
            paths.append(path)
    paths += [os.path.join(cwd, word) for word in _scripts_by_name(argv)]  # one that is not there yet could appear
    if any(True for _ in _looked_up(argv)):
        paths += [os.path.join(cwd, folder, "program") for folder in search_path.split(":")]
    for path in paths[:_MAX_FILES]:
        for way in (path, os.path.realpath(path)):
            found.update(_folders_above(way))
    return frozenset(found)


def identity(path: str) -> Identity | None:
    status = _status(path)
    return (status.st_dev, status.st_ino) if status else None


def identities(folders: Iterable[str]) -> frozenset[Identity]:
    return frozenset(found for folder in folders if (found := identity(folder)) is not None)


def _folders_above(path: str) -> Iterator[Identity]:
    while (parent := os.path.dirname(path)) != path:
        path = parent
        if (found := identity(path)) is not None:
            yield found


def _what_runs(argv: Words) -> Iterator[str]:
    """Words that may name what is run. A file that an ordinary program is given is data, and may change."""
    with suppress(OutOfReach):
        for words in runs_of_words(argv):
            if "/" in words[0]:
                yield words[0]
            if may_hide_commands(words[0]) or _INTERPRETER.fullmatch(program_name(words[0])):
                yield from words[1:]


def _scripts_by_name(argv: Words) -> Iterator[str]:
    """What the command itself names as its program or script, whether it is there or not."""
    if "/" in argv[0]:
        yield argv[0]
    runs_a_file = may_hide_commands(argv[0]) or _INTERPRETER.fullmatch(program_name(argv[0]))
    if runs_a_file and script_of(argv) is None and "-c" not in argv:
        yield from (word for word in argv[1:] if word and not word.startswith("-") and not re.search(r"\s", word))


def _looked_up(argv: Words) -> Iterator[str]:
    """Programs that are found by the search path."""
    called = simple_commands(argv) or ()
    yield from dict.fromkeys(words[0] for words in (argv, *called) if "/" not in words[0])


def _find(name: str, search_path: str, cwd: str) -> str | None:
    for folder in search_path.split(":"):
        path = os.path.join(cwd, folder, name)
        with suppress(OSError, ValueError):
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    return None


def _times(path: str) -> str:
    status = _status(path)
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}" if status else ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _content(path: str) -> str | None:
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > _MAX_BYTES:
        return _times(path)
    import hashlib  # some milliseconds, which a server's start need not wait for

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe by now
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size  # of the one that is read; files of the kernel have none, and might be waited for
            return f"{size}:{hashlib.sha256(file.read(min(size, _MAX_BYTES)) or b'').hexdigest()}"
    except OSError:
        return None
