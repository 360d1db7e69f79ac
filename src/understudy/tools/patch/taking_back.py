"""Undoes patches: planned against the files as they are now, and written through the same door as patches.

A file is restored to its state before all of them, or not at all: if it was changed since, or between two of the patches, it is
left alone, and so are files that were moved from or to it.
"""

import stat
from collections.abc import Callable, Sequence

import msgspec

from understudy.errors import PatchError
from understudy.places.places import Places
from understudy.protocol.records import LeftFile

from .commit import Change, commit_changes, remove_empty_folders
from .door import Door, FileState, act_in
from .keeping import digest, restored
from .paths import PatchSpot, os_text

MAX_TOTAL_BYTES = 256 * 1024 * 1024  # of the files that are held at once

CHANGED_SINCE = "it was changed since"
CHANGED_BETWEEN = "something else changed it between two patches of the turn"
NOT_KEPT = "what it held before is larger than what is kept"
TOO_MUCH = f"the files of this turn are larger than {MAX_TOTAL_BYTES} bytes together"

Refusal = Callable[[str], str | None]


class DonePatch(msgspec.Struct, frozen=True):
    """One patch, as the log has it."""

    files: tuple[LeftFile, ...]
    folders: tuple[str, ...] = ()


class Taken(msgspec.Struct):
    """The outcome."""

    taken_back: list[str] = []
    left: dict[str, str] = {}


class TakingBack(msgspec.Struct, frozen=True):
    """What will be done. Each group is changed as a whole or not at all."""

    groups: tuple[tuple[Change, ...], ...]
    left: dict[str, str]  # files that are left alone, with the reason
    folders: tuple[str, ...]  # made by the patches, the innermost first; removed if they are empty
    places: Places | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.spot.real for group in self.groups for change in group)


def plan_taking_back(
    patches: Sequence[DonePatch], refused: Refusal, places: Places | None = None, blocked: dict[str, str] | None = None
) -> TakingBack:
    """`patches` in the order in which they were applied; `refused` says why a file may not be changed; `blocked` are files that
    must be left alone, with reasons. Writes nothing.
    """

    def look() -> _Picture:
        with Door(places) as door:
            picture = _Picture(door, patches, refused, blocked or {})
            for patch in reversed(patches):
                for unit in _units(patch.files):
                    picture.take_back(unit)
            return picture

    picture = act_in(places, look)
    folders = sorted({folder for patch in patches for folder in patch.folders}, key=len, reverse=True)
    groups, left = picture.outcome()
    return TakingBack(groups, left, tuple(folders), places)


def take_back(plan: TakingBack) -> Taken:
    """Undo every group that can be undone."""
    taken = Taken(left=dict(plan.left))
    for group in plan.groups:
        paths = [change.spot.real for change in group]
        try:
            commit_changes(group, plan.places)
        except PatchError as error:
            taken.left.update(dict.fromkeys(paths, str(error)))
        else:
            taken.taken_back += paths
    remove_empty_folders(plan.folders, plan.places)
    return taken


def _units(files: Sequence[LeftFile]) -> list[list[LeftFile]]:
    """Groups what a patch did to files that belong together: a moved file at both places, or a single file."""
    by_path = {file.path: file for file in files}
    sources = {file.moved_from for file in files if file.moved_from}
    units: list[list[LeftFile]] = []
    for file in files:
        if file.moved_from in by_path:
            units.append([file, by_path[file.moved_from]])
        elif file.path not in sources:
            units.append([file])
    return units


class _Picture:
    """The files as they are now, and as they will be."""

    def __init__(self, door: Door, patches: Sequence[DonePatch], refused: Refusal, blocked: dict[str, str]) -> None:
        self._door = door
        self._now: dict[str, FileState | None] = {}
        self._data: dict[str, bytes | None] = {}  # the content that each will have
        self._likes: dict[str, str | int] = {}  # the permissions that each will have: a path whose permissions it gets, or the bits
        self._begun: set[str] = set()  # files of which at least one change was undone
        self._blocked = dict(blocked)
        self._partners: dict[str, set[str]] = {}
        self._total = 0
        first: dict[str, str] = {}  # the digest of each file before all patches
        self._first_modes: dict[str, int] = {}  # and its permissions
        for patch in patches:
            for file in patch.files:
                if file.path not in first and file.before:
                    self._first_modes[file.path] = stat.S_IMODE(file.mode)
                first.setdefault(file.path, file.before)
        for path in first:
            self._look(path, refused)
        self._as_before = {path for path, before in first.items() if path in self._now and digest(self._data[path]) == before}
        self._restored: set[str] = set()  # files that were already restored, by an interrupted undo or by hand

    def _look(self, path: str, refused: Refusal) -> None:
        if path in self._blocked:
            return
        try:
            if (reason := refused(path)) is not None:
                raise PatchError(reason)
            state = self._door.read(path)
            if state is not None and state.data is None:
                raise PatchError(CHANGED_SINCE)  # into something that cannot be read
            self._total += len(state.data or b"") if state is not None else 0
            if self._total > MAX_TOTAL_BYTES:
                raise PatchError(TOO_MUCH)
        except PatchError as error:
            self._blocked[path] = str(error)
        except OSError as error:
            self._blocked[path] = CHANGED_SINCE if isinstance(error, IsADirectoryError | NotADirectoryError) else os_text(error)
        else:
            self._now[path] = state
            self._data[path] = None if state is None else state.data
            if state is not None:
                self._likes[path] = path

    def take_back(self, unit: list[LeftFile]) -> None:
        for file in unit:
            self._partners.setdefault(file.path, set()).update(other.path for other in unit)
        for file in unit:
            if file.path in self._as_before and file.path not in self._begun and not self._is_as_left(file):
                self._restored.add(file.path)
        todo = [file for file in unit if file.path not in self._restored]
        contents: list[bytes | None] = []
        for file in todo:
            reason = self._hindrance(file)
            if reason is None:
                content = self._before(file, unit)
                contents.append(content)
                reason = None if digest(content) == file.before else CHANGED_SINCE
            if reason is not None:
                self._blocked.setdefault(file.path, reason)
                return
        self._put_back(todo, unit, contents)

    def _hindrance(self, file: LeftFile) -> str | None:
        if (reason := self._blocked.get(file.path)) is not None:
            return reason
        if not self._is_as_left(file):
            return CHANGED_BETWEEN if file.path in self._begun else CHANGED_SINCE
        return NOT_KEPT if file.before and file.pieces is None else None

    def _is_as_left(self, file: LeftFile) -> bool:
        return file.path in self._data and digest(self._data[file.path]) == file.after

    def _before(self, file: LeftFile, unit: list[LeftFile]) -> bytes | None:
        if not file.before:
            return None
        now = self._data[file.path]
        if now is None and (destination := _destination(file, unit)) is not None:
            now = self._data[destination]
        return restored(now or b"", file.pieces or ())

    def _put_back(self, todo: list[LeftFile], unit: list[LeftFile], contents: list[bytes | None]) -> None:
        likes = dict(self._likes)
        for file, content in zip(todo, contents, strict=True):
            if content is None:
                self._likes.pop(file.path, None)
            elif file.moved_from:  # another file had replaced it
                self._likes[file.path] = stat.S_IMODE(file.mode)
            elif self._data[file.path] is None:  # it comes back with the permissions that it has at the place where it was moved
                self._likes[file.path] = likes.get(_destination(file, unit) or "", stat.S_IMODE(file.mode))
            self._data[file.path] = content
            self._begun.add(file.path)

    # -- what follows from it

    def outcome(self) -> tuple[tuple[tuple[Change, ...], ...], dict[str, str]]:
        """What to change, in groups, and what is left alone. Files that belong together are all restored, or all stay."""
        groups: list[tuple[Change, ...]] = []
        left: dict[str, str] = {}
        seen: set[str] = set()
        for path in (*self._now, *self._blocked):
            if path in seen:
                continue
            together = self._connected(path)
            seen.update(together)
            culprit = next((other for other in together if other in self._blocked), None)
            if culprit is None:
                groups.append(tuple(self._change(other) for other in together if self._differs(other)))
            elif others := [other for other in together if not self._is_as_it_was(other)]:
                reason = f"it belongs together with {culprit}: {self._blocked[culprit]}"
                left |= {other: self._blocked.get(other, reason) for other in others}
        return tuple(group for group in groups if group), left

    def _is_as_it_was(self, path: str) -> bool:
        """In content and permissions: a file that was made again may have the same content, but be readable for others."""
        state = self._now.get(path)
        return path in self._as_before and (state is None or state.mode == self._first_modes.get(path, state.mode))

    def _connected(self, path: str) -> list[str]:
        found = {path: None}
        waiting = [path]
        while waiting:
            for other in self._partners.get(waiting.pop(), ()):
                if other not in found:
                    found[other] = None
                    waiting.append(other)
        return list(found)

    def _differs(self, path: str) -> bool:
        state, after = self._now[path], self._data[path]
        if state is None or after is None:
            return state is not None or after is not None
        if self._is_as_it_was(path) and digest(state.data) == digest(after):  # even if the last patch left it so
            return False
        return state.data != after or self._likes[path] not in (path, state.mode)

    def _change(self, path: str) -> Change:
        after = self._data[path]
        like = None if after is None else self._likes[path]
        spot = PatchSpot(path, path, path)
        if isinstance(like, int):
            return Change(spot, self._now[path], after, mode=like)
        return Change(spot, self._now[path], after, like=like)


def _destination(file: LeftFile, unit: list[LeftFile]) -> str | None:
    return next((other.path for other in unit if other.moved_from == file.path), None)
