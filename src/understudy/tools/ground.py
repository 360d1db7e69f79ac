"""What a command stands on besides its words: the folder it runs in, and the programs and scripts that it names.

An approval is for these as they are when the question is put. What a program reads by itself (a Makefile, a package's
scripts) is not looked at.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from understudy.policy.reach import OutOfReach, may_hide_commands, program_name, runs_of_words
from understudy.policy.words import Words

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php|node|lua)[\d.]*|deno|bun|tsx|ts-node|rscript|osascript|[gm]?awk|source|\.")
_MAX_FILES = 64
_MAX_BYTES = 1024 * 1024  # a larger file is told by its times


def standing(argv: Words, cwd: str) -> str:
    """Differs when the folder is another one, or when what one of those files holds has changed."""
    folder = _status(cwd)
    told = [f"{folder.st_dev}:{folder.st_ino}" if folder else ""]
    for path in dict.fromkeys(os.path.join(cwd, word) for word in _what_runs(argv)):
        if content := _content(path):
            told.append(content)
        if len(told) > _MAX_FILES:
            break
    return "\n".join(told)


def _what_runs(argv: Words) -> Iterator[str]:
    """Words that may name what is run. A file that an ordinary program is given is data, and may change."""
    with suppress(OutOfReach):
        for words in runs_of_words(argv):
            if "/" in words[0]:
                yield words[0]
            if may_hide_commands(words[0]) or _INTERPRETER.fullmatch(program_name(words[0])):
                yield from words[1:]


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
        return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"
    import hashlib  # some milliseconds, which a server's start need not wait for

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe by now
        with open(descriptor, "rb") as file:
            return hashlib.sha256(file.read(status.st_size)).hexdigest()
    except OSError:
        return None
