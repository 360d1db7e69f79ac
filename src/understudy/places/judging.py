"""Where a path stands: inside the writable roots, outside them, on the list of what is protected, or masked.

Judges paths only and decides nothing: policy does. Names are compared the way the most forgiving file system would, so
that no spelling of `.git` gets past a check that another spelling would have met.
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
    reason: str  # in words, for the person or model that is told


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
        """Of an absolute path without `..`."""
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
        """The masked path that it is, lies in, or would be a file in the way of."""
        return _meeting(self._masked, _names(path))

    def _protected_by(self, path: str) -> str | None:
        names = _names(path)
        if (entry := _meeting(self._places, names)) is not None:
            return entry
        if self._beginnings.isdisjoint(names):  # as of nearly every path
            return None
        # A root may itself lie under such a name; what counts is what lies beneath the root.
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
    """The entry that the path lies in, or one of whose folders it would be a file in the place of."""
    for entry, parts in entries:
        shorter = min(len(names), len(parts))
        if names[:shorter] == parts[:shorter]:
            return entry
    return None


def _names(path: str) -> tuple[str, ...]:
    return tuple(_folded(name) for name in path.split("/") if name not in ("", "."))


def _folded(name: str) -> str:
    """One spelling for all that some file system takes for the same name."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
        name = "".join(character for character in name if unicodedata.category(character) != "Cf")
        name = unicodedata.normalize("NFC", name.casefold())
    name = name.lower().partition(":")[0] or name.lower()  # `.git::$INDEX_ALLOCATION` on NTFS
    name = name.rstrip(". ") or name
    return ".git" if name == "git~1" else name  # its short name on FAT and NTFS


def _contains(names: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return bool(part) and any(names[start : start + len(part)] == part for start in range(len(names) - len(part) + 1))
