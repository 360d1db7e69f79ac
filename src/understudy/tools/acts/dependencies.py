"""What a command depends on besides its words: its folder, the programs and scripts that it may run, and locks that keep others
from replacing these meanwhile.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from io import FileIO
from itertools import pairwise
from typing import NamedTuple, TypeVar

from understudy.errors import ToolError
from understudy.policy.words import OutOfReach, Words, may_hide_commands, program_name, runs_of_words, script_of, simple_commands
from understudy.tools.acts.wildcards import LONGEST, WILD, TooWide, Wildcards

_INTERPRETER = re.compile(r"(?:python|pypy|ruby|perl|php|node|lua)[\d.]*|deno|bun|tsx|ts-node|rscript|osascript|[gm]?awk|source|\.")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_NODE = re.compile(r"node[\d.]*|bun|tsx|ts-node")
_PROGRAM = re.compile(r"[^\s\-=*?\[\]~#!][^\s=*?\[\]]*")
_AFTER_VARIABLE = re.compile(r"[A-Za-z_]\w*/(.+)")  # `$PWD/run.sh`, once split
_SHELLS_OWN = re.compile(r"""[;&|<>()`{}$"'\\]""")
_BLANK = re.compile(r"\s")
_QUOTES = str.maketrans("", "", "'\"\\")
_ENDS = re.compile(r"[\s;&|<>()`{}$]+")  # of words, however a shell would read them
_BREAKS = re.compile(r"[;&|<>()`{}$]+")
_READ_FROM = re.compile(r"""<\s*["']?([^\s;&|<>()"']+)""")
_MOST_WORDS = 10_000
_MOST_PARTS = 100
_MOST_FOLDERS = 16


class RunTargets(NamedTuple):
    files: tuple[str, ...]  # absolute; most do not exist
    programs: tuple[str, ...]  # by their bare names


_FEW_WORDS = 16
_SHORT = 1_000  # characters

T = TypeVar("T")


async def beside_the_loop(argv: Words, look: Callable[[], T]) -> T:
    """Run `look` for a command; on a thread if it may take long, so that others need not wait."""
    if len(argv) <= _FEW_WORDS and sum(map(len, argv)) <= _SHORT and not any(map(WILD.search, argv)):
        return look()
    return await asyncio.to_thread(look)


def find_run_targets(argv: Words, cwd: str) -> RunTargets:
    """Raises `TooWide`."""
    words: dict[str, None] = {}  # all of them, in order
    runs: dict[str, None] = {}  # words that may name a program or script
    programs = dict.fromkeys(words[0] for words in (argv, *(simple_commands(argv) or ())) if "/" not in words[0])
    try:
        for run in runs_of_words(argv):
            words.update(dict.fromkeys(run))
            runs.update(dict.fromkeys(_may_run(run)))
            if _PROGRAM.fullmatch(run[0]) and "/" not in run[0]:
                programs[run[0]] = None
    except OutOfReach:  # too long or too deeply nested to split: it may run whatever it names
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
    """What the command itself names as its program or script, whether it exists or not."""
    if "/" in argv[0]:
        yield argv[0]
    if _runs_a_file(argv[0]) and script_of(argv) is None and "-c" not in argv:
        yield from (word for word in argv[1:] if word and not word.startswith("-") and not re.search(r"\s", word))


def _runs_a_file(program: str) -> bool:
    return may_hide_commands(program) or _INTERPRETER.fullmatch(program_name(program)) is not None


def _may_run(run: Words) -> Iterator[str]:
    """A file given to an ordinary program is data, and may change."""
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
    if _SHELLS_OWN.search(word) and not _BLANK.search(word):  # with blanks it is a script, which is split elsewhere
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
        yield word.lstrip("/")  # `${PWD}/run.sh`, once split
    if word.startswith("~/"):
        yield os.path.expanduser(word)


def _folders(words: Iterable[str], cwd: str) -> list[str]:
    """Where relative names may start: the command's folder, and the folders to which it could change."""
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
        return (path,)  # so long, and with characters that end a shell's word: a quoted text
    return (path, *wildcards.matches(folder, word))


Identity = tuple[int, int]  # device and inode

_MAX_FILES = 1_000
_MAX_PROGRAMS = 100
_MAX_INTERPRETERS = 4  # the longest chain of scripts that are each other's interpreters; the kernel goes no further
_MAX_BYTES = 1024 * 1024  # of a larger file, only the times are compared
_HEAD = 256


def fingerprint(argv: Words, cwd: str, search_path: str = "") -> str:
    """Changes if the folder is another one, one of the files has other content, or a program is found elsewhere.

    Raises `TooWide`.
    """
    folder = _status(cwd)
    told = [f"{folder.st_dev}:{folder.st_ino}" if folder else ""]
    told += [f"{path}:{mark}" for path, mark in _Dependencies(argv, cwd, search_path).marks.items()]
    return "\n".join(told)


def folders_to_lock(argv: Words, cwd: str, search_path: str = "") -> frozenset[Identity]:
    """Every folder in which something that the command depends on could be replaced."""
    found: set[Identity] = set()
    depends = _Dependencies(argv, cwd, search_path)
    paths = [cwd, *(path for path in depends.marks if path.startswith("/"))]
    paths += [os.path.join(cwd, word) for word in scripts_by_name(argv)]  # a missing one could appear
    if depends.looked_up:
        paths += [os.path.join(cwd, folder, "program") for folder in search_path.split(":")]
    for path in paths[:_MAX_FILES]:
        for way in (path, os.path.realpath(path)):
            found.update(_folders_above(way))
    return frozenset(found)


def depended_on(argv: Words, cwd: str, search_path: str = "") -> dict[str, str]:
    """The files, by path, each with a text that changes when the file does. Raises `TooWide`."""
    marks = _Dependencies(argv, cwd, search_path).marks
    return {path: mark for path, mark in marks.items() if path.startswith("/")}


_SOURCES = re.compile(r"\.(?:py|pyz|[cm]?[jt]sx?|sh|bash|zsh|fish|rb|pl|php|lua|r|jar|go|awk)", re.IGNORECASE)


def run_by(argv: Words, cwd: str) -> list[str]:
    """Real paths of the dependencies that look like programs or scripts, rather than like data."""
    paths = list(depended_on(argv, cwd))
    run = [path for path in paths if _SOURCES.fullmatch(os.path.splitext(path)[1]) or os.access(path, os.X_OK)]
    return [os.path.realpath(path) for path in (run or paths[:1])]


class _Dependencies:
    """`marks`: a text for each file, by path, that changes when the file does; and where each program is found, by name."""

    def __init__(self, argv: Words, cwd: str, search_path: str) -> None:
        self._cwd = cwd
        self._search_path = search_path
        self.marks: dict[str, str] = {}
        found = find_run_targets(argv, cwd)
        self.looked_up = bool(found.programs)
        for path in found.files:
            self._add(path)
        for name in found.programs[:_MAX_PROGRAMS]:
            self._look_up(name, 0)

    def _add(self, path: str, depth: int = 0) -> None:
        if path in self.marks or (content := _content(path)) is None:
            return
        if len(self.marks) >= _MAX_FILES:
            raise TooWide
        self.marks[path] = content.mark
        self._add_interpreter(content.head, depth)

    def _look_up(self, name: str, depth: int) -> None:
        path = _find(name, self._search_path, self._cwd)
        self.marks[name] = path or ""
        if path is not None and path not in self.marks:
            self.marks[path] = times = _times(path)
            self._add_interpreter(_head(path, times), depth)

    def _add_interpreter(self, head: bytes, depth: int) -> None:
        """A script depends on the program that its first line names, which may be a script, too."""
        if not head.startswith(b"#!") or depth >= _MAX_INTERPRETERS:
            return
        program, *rest = os.fsdecode(head[2:].split(b"\n")[0]).split() or [""]
        if program:
            self._add(os.path.join(self._cwd, program), depth + 1)
        if os.path.basename(program) == "env":
            for word in rest:
                if word.startswith("-") or "=" in word:
                    continue
                if "/" in word:
                    self._add(os.path.join(self._cwd, word), depth + 1)
                else:
                    self._look_up(word, depth + 1)
                break


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


class _Content(NamedTuple):
    mark: str
    head: bytes


def _content(path: str) -> _Content | None:
    status = _status(path)
    if status is None or not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > _MAX_BYTES:
        return _Content(times := _times(path), _head(path, times))
    try:
        with _opened(path) as file:
            size = os.fstat(
                file.fileno()
            ).st_size  # of the file that is read; files of the kernel have none, and reading them might block
            data = file.read(min(size, _MAX_BYTES)) or b""
    except OSError:
        return None
    return _Content(f"{size}:{hashlib.sha256(data).hexdigest()}", data[:_HEAD])


@lru_cache(maxsize=256)
def _head(path: str, _: str) -> bytes:
    """The beginning of a file that has these times."""
    try:
        with _opened(path) as file:
            return file.read(_HEAD) or b"" if os.fstat(file.fileno()).st_size else b""
    except OSError:
        return b""


def _opened(path: str) -> FileIO:
    return open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)  # it may be a pipe by now


_RETRY_SECONDS = 0.02


class FoldersBusy(ToolError):
    """Another command has locked what this one needs."""


@asynccontextmanager
async def locked(state: str, folders: Iterable[Identity], *, alone: bool, seconds: float, otherwise: str) -> AsyncGenerator[None]:
    """Raises `FoldersBusy` with the text `otherwise` if the locks are not free in time. Without `state` nothing is locked."""
    wanted = sorted(set(folders)) if state else []
    deadline = asyncio.get_running_loop().time() + seconds
    while (locks := _take(state, wanted, alone)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise FoldersBusy(otherwise)
        await asyncio.sleep(_RETRY_SECONDS)
    try:
        yield
    finally:
        for lock in locks:
            os.close(lock)


def _take(state: str, folders: list[Identity], alone: bool) -> list[int] | None:
    """Take all locks or none; None if another process has one."""
    locks: list[int] = []
    try:
        for device, inode in folders:
            locks.append(_open(os.path.join(state, "held"), f"{device}-{inode}"))
            fcntl.flock(locks[-1], (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        for taken in locks:
            os.close(taken)
        if isinstance(error, BlockingIOError):
            return None
        if alone:
            raise ToolError(f"cannot keep what the command depends on from changing: {error.strerror}: {error.filename}") from None
        return []  # a contained command may run all the same, for example when the disk is full
    return locks


def _open(folder: str, name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(os.path.join(folder, name), flags, 0o600)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.open(os.path.join(folder, name), flags, 0o600)
