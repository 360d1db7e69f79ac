"""Whether a path is inside the writable roots, outside them, protected or masked.

Only judges paths; policy decides. Names are compared as the most tolerant file system would, so that no other spelling of `.git`
passes the checks.
"""

import os
import posixpath
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from understudy.places.resolving import is_within
from understudy.places.walking import real_paths

Standing = Literal["inside", "outside", "protected", "masked"]


class Placement(msgspec.Struct, frozen=True):
    path: str  # real and absolute
    place: Standing
    reason: str  # for the person or model that is told


class Judge:
    def __init__(self, roots: Sequence[str], protected: Iterable[str], masked: Iterable[str]) -> None:
        """`roots`: real and absolute; `protected`: names inside every root, or absolute paths; `masked`: absolute paths."""
        self._roots = roots
        entries = list(protected)
        self._names = [(entry, _names(entry)) for entry in entries if not entry.startswith("/")]
        self._beginnings = frozenset(names[0] for _, names in self._names if names)
        self._places = _spelled(entry for entry in entries if entry.startswith("/"))
        self._masked = _spelled(masked)

    def place(self, path: str) -> Placement:
        """Judge an absolute path without `..`."""
        real = os.path.realpath(path)
        spellings = (path,) if real == path else (path, real)
        masked = next(filter(None, map(self.masked_by, spellings)), None)
        if masked is not None:
            return Placement(path, "masked", f"{path} is masked by '{masked}'")
        entry = next(filter(None, map(self._protected_by, spellings)), None)
        if entry is not None:
            return Placement(path, "protected", f"{path} is protected by '{entry}'")
        if real != path:
            return Placement(path, "outside", f"{path} leads through a symbolic link to {real}")
        for root in self._roots:
            if is_within(path, root):
                return Placement(path, "inside", f"{path} is in {root}")
        return Placement(path, "outside", f"{path} is outside of the writable directories")

    def masked_by(self, path: str) -> str | None:
        """The masked path that this path is or is inside; or a masked path below it, in whose way a file here would be."""
        return _meeting(self._masked, _names(path))

    def _protected_by(self, path: str) -> str | None:
        names = _names(path)
        if (entry := _meeting(self._places, names)) is not None:
            return entry
        if self._beginnings.isdisjoint(names):  # true of nearly every path
            return None
        # A root may itself be below such a name; only names below the root count.
        beneath = [names[len(_names(root)) :] for root in self._roots if is_within(path, root)]
        for entry, protected in self._names:
            if any(_contains(tail, protected) for tail in beneath or [names]):
                return entry
        return None


_Spelled = list[tuple[str, tuple[str, ...]]]


def _spelled(entries: Iterable[str]) -> _Spelled:
    spelled = list(entries)
    pairs = zip(spelled, real_paths(spelled), strict=True)
    return [(entry, _names(path)) for entry, real in pairs for path in {posixpath.normpath(entry), real}]


def _meeting(entries: _Spelled, names: tuple[str, ...]) -> str | None:
    """The entry that the path is inside; or an entry below the path, which would lose its folder if the path were a file."""
    for entry, parts in entries:
        shorter = min(len(names), len(parts))
        if names[:shorter] == parts[:shorter]:
            return entry
    return None


def _names(path: str) -> tuple[str, ...]:
    return tuple(_folded(name) for name in path.split("/") if name not in ("", "."))


def _folded(name: str) -> str:
    """One spelling for all names that some file system treats as the same."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(character for character in name if unicodedata.category(character) != "Cf")
        name = unicodedata.normalize("NFC", name.casefold())
    name = name.lower().partition(":")[0] or name.lower()  # `.git::$INDEX_ALLOCATION` on NTFS
    name = name.rstrip(". ") or name
    return ".git" if name == "git~1" else name  # its short name on FAT and NTFS


def _contains(names: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return bool(part) and any(names[start : start + len(part)] == part for start in range(len(names) - len(part) + 1))
