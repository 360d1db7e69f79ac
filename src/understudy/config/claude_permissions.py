"""The user's own `permissions` for Claude Code, as far as they restrict: `deny` and `ask` become rules about commands and changes.

What `allow` says permits nothing here. Entries that cannot be obeyed are named, since somebody relies on them.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

MOST_BYTES = 4 << 20
MOST_RULES = 500  # of one list; entries beyond that are named as not obeyed
MOST_NAMED = 10  # entries that are named because they are not obeyed
_ENTRY = re.compile(r"([A-Za-z]\w*)(?:\((.*)\))?", re.DOTALL)
_NOT_UNDERSTOOD = frozenset("[]{}!")  # in the pattern of a path
_CHANGES = ("Edit", "Write", "MultiEdit", "NotebookEdit")

Table = Mapping[str, Any]


class Permissions(msgspec.Struct, frozen=True):
    rules: tuple[Table, ...] = ()  # in the form of [[policy.rules]]
    notices: tuple[str, ...] = ()


def read_permissions(path: str) -> Permissions:
    """Of the user's settings.json. A file that is broken has no rules: its hooks are named as not running."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            settings = msgspec.json.decode(file.read(MOST_BYTES))
    except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Permissions()
    said = cast(Table, settings).get("permissions") if isinstance(settings, dict) else None
    if not isinstance(said, dict):
        return Permissions()
    rules: list[Table] = []
    passed_over: list[str] = []
    for decision in ("deny", "ask"):
        entries = cast(Table, said).get(decision)
        for number, entry in enumerate(cast(list[Any], entries) if isinstance(entries, list) else ()):
            found = _rule_of(entry) if isinstance(entry, str) and number < MOST_RULES else None
            if found is None:
                passed_over.append(f"`{decision}` of {entry!r}"[:200])
            else:
                rules.append({**found, "decision": decision, "name": f"{entry[:200]} in {path}"})
    return Permissions(tuple(rules), tuple(_notices(path, passed_over)))


def _notices(path: str, passed_over: list[str]) -> Iterator[str]:
    if passed_over:
        more = len(passed_over) - MOST_NAMED
        named = "; ".join(passed_over[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
        yield (
            f"{path}: these permissions are not obeyed here: {named}. To keep files from being read, use `mask` under "
            "[understudy.sandbox]; for tools of other servers, `disabled_tools` of the server"
        )


def _rule_of(entry: str) -> Table | None:
    """None for tools whose use no rule can restrict here."""
    found = _ENTRY.fullmatch(entry.strip())
    if found is None or "\0" in entry:
        return None
    tool, inner = found[1], (found[2] or "").strip()
    if tool == "Bash":
        return {"pattern": _words_of(inner)}
    understood = tool in _CHANGES and not _NOT_UNDERSTOOD.intersection(inner)
    return {"paths": [_path_of(inner)]} if understood else None


def _words_of(text: str) -> list[str]:
    """`git push:*` and `git push *` are all commands that begin so, `make deploy` is that one alone."""
    before = text.removesuffix(":*")
    try:
        words = shlex.split(before)
    except ValueError:  # an unclosed quote
        words = before.split()
    if before != text:
        words.append("**")
    words = ["**" if word == "*" else word for word in words] or ["**"]
    return [*words, "**"] if words[-1].endswith("*") and words[-1] != "**" else words


def _path_of(text: str) -> str:
    """`//x` is absolute, `/x` and `./x` begin at the project, a name alone is meant at any depth."""
    if text.startswith("//"):
        return text[1:]
    if text.startswith("/"):
        return f".{text}"
    return text or "**"
