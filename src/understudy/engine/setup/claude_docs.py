"""What Claude Code reads besides a `CLAUDE.md`: `CLAUDE.local.md`, the rules in `.claude/rules`, and what these import by `@path`.

Only files of the same project, or of the user's own folder, are imported. What is imported is protected like `CLAUDE.md` itself, so
that no model can write what later ones are told; so files that change in daily work are left for the model to read.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence

from understudy.engine.setup.skills import front_matter, without_front_matter
from understudy.engine.setup.turn_setup import Doc
from understudy.places.resolving import is_within
from understudy.text import make_visible

LOCAL = "CLAUDE.local.md"
RULES = ".claude/rules"
MOST_FILES = 128  # of one folder, with what they import
MOST_DEPTH = 5
MOST_RULES = 128
ENDINGS = (".md", ".mdc", ".txt")
LEFT_TO_THE_MODEL = "not imported, since it may change every day: the model reads it when it needs it"
DAILY = ("readme", "changelog")
_MOST_LOOKED_AT = 1_000
_DEEPEST = 6

_FENCE = re.compile(r"^[ ]{0,3}(```+|~~~+).*?(?:^[ ]{0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_PUNCTUATION = ".,;:!?)]}\"'"
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)")

Read = Callable[[str], str | None]
"""The text of a file that may be read; None or nothing for all others."""


def with_others(folder: str, main: Sequence[Doc], root: str, read: Read) -> list[Doc]:
    """The folder's main file with its imports, its rules, and what is kept out of the repository."""
    docs = with_imports(main, root, read)
    rules = f"{folder}/{RULES}"
    if os.path.realpath(rules) == f"{os.path.realpath(folder)}/{RULES}":  # what a link leads to would not be protected
        docs += of_rules(rules, root, lambda path: None if os.path.islink(path) else read(path))
    path = f"{folder}/{LOCAL}"
    local = [Doc(path, text)] if (text := read(path)) else []
    return docs + with_imports(local, root, read)


def of_rules(folder: str, within: str, read: Read) -> list[Doc]:
    found = [Doc(path, _told(path, text, within)) for path in _markdown_in(folder) if (text := read(path))]
    return with_imports(found, within, read)


def with_imports(docs: Sequence[Doc], within: str, read: Read) -> list[Doc]:
    """Behind each of Claude Code's files those that it imports. `within`: the folder that an import may not lead out of."""
    seen = {doc.path for doc in docs}
    found: list[Doc] = []
    for doc in docs:
        found.append(doc)
        if _is_of_claude(doc.path):
            found += _imports_of(doc, within, read, seen, MOST_DEPTH)
    return found


def _is_of_claude(path: str) -> bool:
    return os.path.basename(path) in ("CLAUDE.md", LOCAL) or "/rules/" in path


def _imports_of(doc: Doc, within: str, read: Read, seen: set[str], depth: int) -> Iterator[Doc]:
    for name in imports_in(doc.text):
        path = os.path.normpath(os.path.join(os.path.dirname(doc.path), name))
        if len(seen) > MOST_FILES or path in seen or not may_be_imported(path, within):
            continue
        seen.add(path)
        if not (text := read(path)) or not text.strip():
            continue
        shown, by = (make_visible(os.path.relpath(each, within)) for each in (path, doc.path))
        yield Doc(path, f"Contents of {shown}, imported by {by}:\n\n{text}", imported=True)
        if depth > 1:
            yield from _imports_of(Doc(path, text), within, read, seen, depth - 1)


def kept_for(own: Sequence[Doc], docs: Sequence[Doc], roots: Sequence[str], opened: Sequence[str]) -> tuple[str, ...]:
    """Files to protect beside those that are by their names: a project's imports, and what the user's own lead to in a root.

    `opened`: names that the user lets be changed without a question.
    """
    led_to = (os.path.realpath(doc.path) for doc in own)
    inside = [path for path in led_to if any(is_within(path, root) for root in roots)]
    imported = [doc.path for doc in docs if doc.imported]
    return tuple(path for path in (*imported, *inside) if not any(f"/{path}".endswith(f"/{name}") for name in opened))


def may_be_imported(path: str, within: str) -> bool:
    name = os.path.basename(path).lower()
    return path.startswith(f"{within.rstrip('/')}/") and name.endswith(ENDINGS) and not name.startswith(DAILY)


def left_out(docs: Sequence[Doc], within: str) -> Iterator[tuple[str, str]]:
    """The files that are named like an import and are not imported, with the reason."""
    known = {doc.path for doc in docs}
    for doc in docs:
        for name in imports_in(doc.text) if _is_of_claude(doc.path) else ():
            path = os.path.normpath(os.path.join(os.path.dirname(doc.path), name))
            if path not in known and os.path.isfile(path):
                known.add(path)
                inside = path.startswith(f"{within.rstrip('/')}/")
                why = "it is empty, or cannot be read" if may_be_imported(path, within) else LEFT_TO_THE_MODEL
                yield path, why if inside else f"an import leads out of {within}"


def imports_in(text: str) -> list[str]:
    """The paths behind `@`, but for those in code."""
    prose = _SPAN.sub("``", _FENCE.sub("", text))
    named = (found.replace("\\ ", " ").partition("#")[0].rstrip(_PUNCTUATION) for found in _IMPORT.findall(prose))
    return list(dict.fromkeys(name for name in named if name and "\0" not in name and not name.startswith("~")))


def _markdown_in(folder: str) -> list[str]:
    """The Markdown files in a folder of rules, in the order of their names; no folder is entered by a link."""
    found: list[str] = []
    looked_at = 0
    for path, depth in _folders(folder):
        try:
            with os.scandir(path) as entries:
                names = sorted(entry.name for entry, _ in zip(entries, range(_MOST_LOOKED_AT), strict=False))
        except OSError:
            continue
        looked_at += len(names)
        found += [f"{path}/{name}" for name in names if name.endswith(".md") and not name.startswith(".")]
        if looked_at > _MOST_LOOKED_AT or len(found) > MOST_RULES or depth > _DEEPEST:
            break
    return sorted(found)[:MOST_RULES]


def _folders(folder: str) -> Iterator[tuple[str, int]]:
    waiting = [(folder, 0)]
    while waiting:
        path, depth = waiting.pop(0)
        yield path, depth
        try:
            with os.scandir(path) as entries:
                below = [entry.path for entry, _ in zip(entries, range(_MOST_LOOKED_AT), strict=False) if _is_folder(entry)]
        except OSError:
            continue
        waiting += [(each, depth + 1) for each in sorted(below)]


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)


def _told(path: str, text: str, within: str) -> str:
    """A rule for certain files is not told as a whole: the model reads it when it comes to such a file."""
    fields = front_matter(text)
    globs = " ".join(fields.get("paths", "").split())
    if not globs:
        return without_front_matter(text)
    return f"Before you work on files that match {make_visible(globs)}, read {make_visible(os.path.relpath(path, within))}."
