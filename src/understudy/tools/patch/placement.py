"""Where the files of a patch stand: inside the writable roots, outside them, or on the list of what is protected.

Judges paths only and decides nothing: policy does. Names are compared the way the most forgiving file system would, so
that no spelling of `.git` gets past a check that another spelling would have met.
"""

import os
import posixpath
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from .paths import is_within
from .plan import PatchPlan

Place = Literal["inside", "outside", "protected"]


class Placement(msgspec.Struct, frozen=True):
    path: str  # real and absolute
    place: Place
    reason: str  # in words, for the person or model that is told


def classify_targets(plan: PatchPlan, writable_roots: Sequence[str], protected: Sequence[str]) -> tuple[Placement, ...]:
    """Every target of the plan with its place, in the plan's order."""
    judge = _Judge(writable_roots, protected)
    return tuple(judge.place(target) for target in plan.targets)


def place_path(path: str, writable_roots: Sequence[str], protected: Sequence[str]) -> Placement:
    """The place of one absolute path, for doors other than patches."""
    return _Judge(writable_roots, protected).place(posixpath.normpath(path))


class _Judge:
    def __init__(self, writable_roots: Iterable[str], protected: Iterable[str]) -> None:
        self._roots = [os.path.realpath(root) for root in writable_roots]
        entries = list(protected)
        self._names = [(entry, _names(entry)) for entry in entries if not entry.startswith("/")]
        self._places = [(entry, _names(real)) for entry in entries if entry.startswith("/") for real in _spellings(entry)]

    def place(self, path: str) -> Placement:
        real = os.path.realpath(path)
        entry = self._protected_by(path) or self._protected_by(real)
        if entry is not None:
            return Placement(path, "protected", f"{path} is protected by '{entry}'")
        if real != path:
            return Placement(path, "outside", f"{path} leads through a symbolic link to {real}")
        for root in self._roots:
            if is_within(path, root):
                return Placement(path, "inside", f"{path} is in {root}")
        return Placement(path, "outside", f"{path} is outside of the writable directories")

    def _protected_by(self, path: str) -> str | None:
        names = _names(path)
        for entry, protected in self._places:
            shorter = min(len(names), len(protected))
            if names[:shorter] == protected[:shorter]:  # beneath it, or a file where one of its directories would be
                return entry
        # A root may itself lie under such a name; what counts is what lies beneath the root.
        beneath = [names[len(_names(root)) :] for root in self._roots if is_within(path, root)]
        for entry, protected in self._names:
            if any(_contains(tail, protected) for tail in beneath or [names]):
                return entry
        return None


def _spellings(entry: str) -> set[str]:
    return {posixpath.normpath(entry), os.path.realpath(entry)}


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
