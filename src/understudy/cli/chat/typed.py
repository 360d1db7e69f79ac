"""Parses what was typed: a slash command, or a message in which long pastes are restored and images are found by their names."""

import difflib
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slash:
    name: str
    about: str
    words: str = ""  # what follows the command
    aliases: tuple[str, ...] = ()


SLASHES = (
    Slash("help", "the keys and these commands"),
    Slash("model", "which model is asked, or another one from the next message on", "[MODEL]"),
    Slash("approvals", "when you are asked and what may be written, or change it from the next message on", "[POLICY] [SANDBOX]"),
    Slash("plan", "the plan as it stands; on, off: plan mode, in which nothing is changed until you accept a plan", "[on|off]"),
    Slash("diff", "what the last turn that changed files changed; all: every turn", "[all]"),
    Slash("undo", "take back the patches of the last turn that changed files, or of another one", "[TURN]"),
    Slash("show", "all of something that was folded; without a number, the last one", "[N]"),
    Slash("cost", "tokens and cost of this conversation"),
    Slash("compact", "have the model sum up what was before, to make room"),
    Slash("image", "send an image with the next message", "PATH"),
    Slash("queue", "send this when the turn is over", "TEXT"),
    Slash("resume", "go on with another conversation: a number of the list, or an id", "[N|ID]"),
    Slash("fork", "go on in a copy of this conversation"),
    Slash("new", "begin a new conversation"),
    Slash("quit", "leave", aliases=("exit", "q")),
)
_BY_NAME = {name: slash for slash in SLASHES for name in (slash.name, *slash.aliases)}
SLASH_NAMES = frozenset(_BY_NAME)
_LIKENESS = 0.5


@dataclass(frozen=True, slots=True)
class Called:
    slash: Slash
    rest: str

    @property
    def words(self) -> list[str]:
        try:
            return shlex.split(self.rest)
        except ValueError:  # an unclosed quote
            return self.rest.split()


class UnknownSlash(Exception):
    """The text says what was probably meant."""


def read_slash(line: str, own: Callable[[], Collection[str]] = tuple) -> Called | None:
    """None: it is a message. So is a path such as /etc/hosts, and a call of one of the user's `own` commands.

    Raises `UnknownSlash`.
    """
    text = line.strip()
    first, _, rest = text.partition(" ")
    if not text.startswith("/") or "/" in first[1:] or "\n" in first:
        return None
    name = first[1:].lower()
    if name in _BY_NAME:
        return Called(_BY_NAME[name], rest.strip())
    if unicodedata.normalize("NFC", name).casefold() in own():
        return None
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=_LIKENESS)
    meant = near[0] if near else next((each for each in _BY_NAME if name and each.startswith(name)), None)
    raise UnknownSlash(f"there is no {first}" + (f"; did you mean /{meant}?" if meant else "; /help lists what there is"))


def help_lines() -> list[tuple[str, str]]:
    return [(f"/{slash.name} {slash.words}".strip(), slash.about) for slash in SLASHES]


KEYS = (
    ("Enter", "send; while it works: steer it (read with its next request)"),
    ("Tab", "while it works: queue the message for when the turn is over"),
    ("Alt-Enter, Ctrl-J", "a new line"),
    ("Esc", "interrupt the turn"),
    ("Ctrl-C", "clear the line; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("Ctrl-O", "show the last folded output; again: the one before"),
    ("Up, Down", "earlier messages"),
    ("@", "name a file; an image is sent along"),
)


IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
LONG_PASTE_LINES = 12
LONG_PASTE = 2_000  # characters
_MARK = re.compile(r"\[paste (\d+): [^\]\n]*\]")
_NAMED = re.compile(r"(?:^|(?<=[\s(\"']))@(?:\"([^\"\n]+)\"|([^\s\"]+))")


class Pastes:
    """Shows each long text in the input line as a single mark."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def take(self, text: str) -> str:
        """The text for the line in its place."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if (path := image_path(text)) is not None:
            return f'@"{path}" ' if re.search(r"\s", path) else f"@{path} "
        lines = text.count("\n") + 1
        if lines <= LONG_PASTE_LINES and len(text) <= LONG_PASTE:
            return text
        self._texts.append(text)
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        return f"[paste {len(self._texts)}: {size}]"

    def put_back(self, line: str) -> str:
        def text(mark: re.Match[str]) -> str:
            number = int(mark[1]) if len(mark[1]) < 9 else 0
            return self._texts[number - 1] if 0 < number <= len(self._texts) else mark[0]

        return _MARK.sub(text, line)


def image_path(text: str) -> str | None:
    """The path of an image, as terminals paste a dropped file: in quotes, or with backslashes."""
    text = text.strip()
    if not text.lower().rstrip("'\"").endswith(IMAGES) or "\n" in text or len(text) > 4096:
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    for path in (text, *words[:1]) if len(words) == 1 else (text,):
        path = path.removeprefix("file://")
        if os.path.isabs(path) and '"' not in path and os.path.isfile(path):
            return path
    return None


def named_images(text: str, cwd: str) -> list[str]:
    """Paths of images that a message names by `@`."""
    paths: list[str] = []
    for found in _NAMED.finditer(text):
        name = found[1] or found[2].rstrip(".,;:!?)")
        path = os.path.join(cwd, os.path.expanduser(name))
        if name.lower().endswith(IMAGES) and os.path.isfile(path):
            paths.append(path)
    return list(dict.fromkeys(paths))
