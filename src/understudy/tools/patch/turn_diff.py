"""What the patches of one turn have changed so far, as one diff in git's form.

Only covers files that a patch named. For these it compares the first state that we saw with the disk now, so it includes what
commands did to them in between.
"""

import hashlib
import os
import stat
from collections.abc import Iterable

import msgspec

from understudy.places.placeholders import begins_repository
from understudy.places.places import Places

from .door import Door, NotPlain, act_in
from .paths import PatchSpot
from .plan import PatchPlan
from .unified import unified_diff

_NO_BLOB = "0" * 40
_LINK = "120000"


class _Picture(msgspec.Struct, frozen=True):
    data: bytes
    mode: str  # as git writes it


class TurnDiff:
    """Call `before` for each plan before it is applied, and `news` afterwards."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[PatchSpot, _Picture | None]] = {}
        self._moves: dict[str, str] = {}
        self._told = ""
        self._places: Places | None = None  # the conversation's; masked files are not shown here either

    def before(self, plan: PatchPlan) -> None:
        """Remember the current state of the plan's files, unless it is known."""
        self._places = plan.places
        new = {edit.spot.real: edit.spot for edit in plan.edits if edit.spot.real not in self._first}
        pictures = self._look_at(new)
        self._first |= {real: (spot, pictures[real]) for real, spot in new.items()}
        for source, destination in plan.moves:
            origin = next((first for first, last in self._moves.items() if last == source.real), source.real)
            self._moves[origin] = destination.real

    def current(self) -> str:
        """The current diff, sorted by path; empty if nothing differs."""
        now = self._look_at(self._first)
        renamed = {
            destination: origin
            for origin, destination in self._moves.items()
            if self._first[origin][1] and not now[origin] and not self._first[destination][1] and now[destination]
        }
        gone = set(renamed.values())
        entries: list[tuple[str, str]] = []
        for real, (spot, first) in self._first.items():
            if real in gone:
                continue
            label = _label(spot)
            if real in renamed:
                old_spot, old = self._first[renamed[real]]
                entries.append((label, _file_diff(_label(old_spot), old, label, now[real])))
            else:
                entries.append((label, _file_diff(label, first, label, now[real])))
        return "".join([diff for _, diff in sorted(entries)])

    def _look_at(self, paths: Iterable[str]) -> dict[str, _Picture | None]:
        def look() -> dict[str, _Picture | None]:
            with Door(self._places) as door:
                return {real: _look(door, real) for real in paths}

        return act_in(self._places, look)

    def news(self) -> str | None:
        """The diff if it has changed since the last call; otherwise None.

        It becomes empty if a later patch undoes everything.
        """
        current = self.current()
        if current == self._told:
            return None
        self._told = current
        return current


def _look(door: Door, real: str) -> _Picture | None:
    try:
        state = door.read(real)
    except NotPlain:
        return _look_at_link(door, real)
    except OSError:  # a directory, or a place that cannot be examined: no patch can have changed it
        return None
    if state is None or state.data is None:
        return None
    return _Picture(state.data, "100755" if state.mode & stat.S_IXUSR else "100644")


def _look_at_link(door: Door, real: str) -> _Picture | None:
    try:
        directory, name = door.parent(real)
        return _Picture(os.fsencode(os.readlink(name, dir_fd=directory)), _LINK)
    except (OSError, NotPlain):
        return None


def _label(spot: PatchSpot) -> str:
    """Relative to the repository that contains it; absolute if none does."""
    directory = spot.real.rpartition("/")[0]
    while directory:
        if begins_repository(directory):
            return spot.real[len(directory) + 1 :]
        directory = directory.rpartition("/")[0]
    return spot.shown


def _file_diff(old_label: str, old: _Picture | None, new_label: str, new: _Picture | None) -> str:
    if old == new or (old and new and old.data == new.data and old_label != new_label):
        return ""
    head = [f"diff --git a/{old_label} b/{new_label}\n"]
    if old is None and new:
        head.append(f"new file mode {new.mode}\n")
    elif new is None and old:
        head.append(f"deleted file mode {old.mode}\n")
    elif old and new and old.mode != new.mode:
        head.append(f"old mode {old.mode}\nnew mode {new.mode}\n")
    if (old and old.data) == (new and new.data) and old and new:
        return "".join(head)
    head.append(f"index {_blob_id(old)}..{_blob_id(new)}\n")
    return "".join(head) + _body(old_label, old, new_label, new)


def _body(old_label: str, old: _Picture | None, new_label: str, new: _Picture | None) -> str:
    names = f"--- {f'a/{old_label}' if old else '/dev/null'}\n+++ {f'b/{new_label}' if new else '/dev/null'}\n"
    try:
        hunks = unified_diff(old.data.decode() if old else "", new.data.decode() if new else "", context=3)
    except UnicodeDecodeError:
        return names + "Binary files differ\n"
    return names + hunks if hunks else ""  # an empty file appeared or vanished; git writes no more about it


def _blob_id(picture: _Picture | None) -> str:
    if picture is None:
        return _NO_BLOB
    return hashlib.sha1(b"blob %d\0" % len(picture.data) + picture.data, usedforsecurity=False).hexdigest()
