"""A patch checked against the disk: what it would change, before anything is written.

The operations are applied in order to a picture of the files in memory, so the plan contains the total effect on each path.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from understudy.errors import PatchError
from understudy.places.places import Places
from understudy.protocol.records import LeftFile
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

from .commit import Change, commit_changes
from .content import updated_text
from .door import MAX_FILE_BYTES, Door, FileState, Masked, act_in
from .grammar import AddOperation, DeleteOperation, Operation, UpdateOperation, parse_patch
from .keeping import left_files
from .paths import Base, PatchSpot, os_text, resolve_base
from .replacing import ReplaceOperation, replaced_text
from .unified import unified_diff

MAX_TOTAL_BYTES = 256 * 1024 * 1024  # of the files of a patch, kept in memory while it waits for approval
_MAX_SHOWN_DELETED = 1024 * 1024  # characters of a deleted file that go into the log

Unsaved = Mapping[str, str]  # unsaved texts from the user's editor, by real path
Deed = Literal["add", "delete", "update", "move away", "move here"]

# Which operations may follow each other on the same file; any other order is probably a mistake, and is refused.
_SEQUENCES: frozenset[tuple[Deed, Deed]] = frozenset(
    {
        ("update", "update"),
        ("update", "move away"),
        ("delete", "add"),
        ("delete", "move here"),
        ("move away", "add"),
    }
)


class PatchPlan(msgspec.Struct, frozen=True):
    """What a patch will do. `failure` is a reason, known already, why applying it will fail."""

    changes: dict[str, FileChange]  # by absolute path, in the spelling that is shown
    edits: tuple[Change, ...]
    moves: tuple[tuple[PatchSpot, PatchSpot], ...]
    summary: str
    overwrites: tuple[str, ...]  # existing files that an addition or a move replaces
    failure: str | None
    places: Places | None = None  # against which it was checked, and through which it is written
    unsaved: tuple[str, ...] = ()  # files, as written in the patch, whose unsaved changes are written, too

    @property
    def is_empty(self) -> bool:
        return not self.changes

    @property
    def targets(self) -> tuple[str, ...]:
        """Every path the patch touches, real and absolute."""
        return tuple(edit.spot.real for edit in self.edits)


def plan_patch(body: str, base: str, places: Places | None = None, unsaved: Unsaved | None = None) -> PatchPlan:
    """Check the patch against the files as they are now. Writes nothing.

    Paths in it are relative to `base`. `places` are the conversation's, which may be behind links that the user chose. An update
    starts from `unsaved` text if there is any, and changes what is on the disk. Raises `PatchError`. Deleting a missing file is no
    error here; applying reports it.
    """
    patch = parse_patch(body)
    if not patch.operations:
        return PatchPlan({}, (), (), "", (), None)
    return _plan(patch.operations, base, places, unsaved)


def plan_replacement(
    operation: ReplaceOperation, base: str, places: Places | None = None, unsaved: Unsaved | None = None
) -> PatchPlan:
    """The same for a replacement of exact text. Raises `PatchError`."""
    return _plan((operation,), base, places, unsaved)


def _plan(
    operations: Sequence[Operation | ReplaceOperation], base: str, places: Places | None, unsaved: Unsaved | None
) -> PatchPlan:
    def look() -> _Picture:
        with Door(places) as door:
            picture = _Picture(door, resolve_base(base, places), places, unsaved or {})
            for operation in operations:
                picture.play(operation)
        return picture

    try:
        return act_in(places, look).plan()
    except PermissionError as error:  # the doer's rights cannot be taken on
        raise PatchError(os_text(error)) from None


class Applied(msgspec.Struct, frozen=True):
    """What must be known to undo it."""

    files: tuple[LeftFile, ...]
    folders: tuple[str, ...]  # made for new files


def apply_plan(plan: PatchPlan) -> Applied:
    """Make all of the plan's changes, or none and raise `PatchError` with the reason on one line."""
    if plan.failure:
        raise PatchError(plan.failure)
    changed = [edit for edit in plan.edits if edit.before is None or edit.after is None or edit.before.data != edit.after]
    files = left_files(changed)
    return Applied(files, commit_changes(changed, plan.places))


class _Entry(msgspec.Struct):
    """One path in the picture."""

    spot: PatchSpot
    before: FileState | None
    data: bytes | None  # its content after the operations so far
    like: str | None = None
    deeds: list[Deed] = msgspec.field(default_factory=list["Deed"])
    moved_to: "_Entry | None" = None
    moved_from: "_Entry | None" = None
    unsaved: bool = False


class _Picture:
    def __init__(self, door: Door, base: Base, places: Places | None, unsaved: Unsaved) -> None:
        self._door = door
        self._base = base
        self._places = places
        self._unsaved = unsaved
        self._entries: dict[str, _Entry] = {}
        self._read_bytes = 0
        self._failure: str | None = None

    def play(self, operation: Operation | ReplaceOperation) -> None:
        match operation:
            case ReplaceOperation():
                self._replace(operation)
            case AddOperation():
                self._add(operation)
            case DeleteOperation():
                self._delete(operation)
            case UpdateOperation():
                self._update(operation)

    def plan(self) -> PatchPlan:
        entries = list(self._entries.values())
        return PatchPlan(
            changes=_changes(entries),
            edits=tuple(_edit(entry) for entry in entries),
            moves=tuple((entry.spot, entry.moved_to.spot) for entry in entries if entry.moved_to),
            summary=_summary(entries),
            overwrites=tuple(entry.spot.shown for entry in entries if entry.before and entry.deeds[0] in ("add", "move here")),
            failure=self._failure,
            places=self._places,
            unsaved=tuple(entry.spot.written for entry in entries if entry.unsaved),
        )

    def _spot(self, written: str) -> PatchSpot:
        """Masked files are refused before they are read, because the messages of a patch reveal a file's content."""
        spot = self._base.spot(written)
        if self._places is not None and self._places.judge.masked_by(spot.real) is not None:
            raise Masked(spot.shown)
        return spot

    def _add(self, operation: AddOperation) -> None:
        spot = self._spot(operation.path)
        entry = self._entry(spot, "add", f"Failed to write file {spot.written}")
        if entry.before and entry.before.data is None:
            raise PatchError(f"Failed to read file to replace {spot.shown}: {_unread_reason(entry.before)}")
        entry.data = operation.content.encode()

    def _replace(self, operation: ReplaceOperation) -> None:
        """Adds a file if there is none and nothing is to be replaced."""
        spot = self._spot(operation.path)
        if not operation.old_text and self._look(spot, "update", None) is None:
            self._add(AddOperation(operation.path, operation.new_text))
            return
        entry = self._entry(spot, "update", None)
        entry.data = replaced_text(_text(entry), operation, spot.shown).encode()

    def _delete(self, operation: DeleteOperation) -> None:
        spot = self._spot(operation.path)
        failure = f"Failed to delete file {spot.written}"
        entry = self._entry(spot, "delete", failure)
        if entry.before is None:
            self._fail(failure)
        entry.data = None

    def _update(self, operation: UpdateOperation) -> None:
        spot = self._spot(operation.path)
        destination = self._spot(operation.move_to) if operation.move_to is not None else spot
        stays = destination.real == spot.real
        source = self._entry(spot, "update" if stays else "move away", None)
        new = updated_text(_text(source), operation.chunks, spot.shown).encode()
        if stays:
            source.data = new
            return
        entry = self._entry(destination, "move here", f"Failed to write file {destination.written}")
        if entry.before and entry.before.data is None:
            raise PatchError(f"Failed to read file to replace {destination.shown}: {_unread_reason(entry.before)}")
        entry.data, entry.like = new, spot.real
        source.data, source.moved_to, entry.moved_from = None, entry, source

    def _entry(self, spot: PatchSpot, deed: Deed, failure: str | None) -> _Entry:
        """The entry of a path, after a check that `deed` may come next. With `failure`, an obstacle at the path (a directory, or a
        file in place of a directory) is not reported here, but in these words when the plan is applied."""
        entry = self._entries.get(spot.real)
        if entry is None:
            before = self._look(spot, deed, failure)
            entry = _Entry(spot, before, before.data if before else None, like=spot.real if before else None)
            if before is not None and deed in ("update", "move away") and spot.real in self._unsaved:
                entry.data, entry.unsaved = self._unsaved[spot.real].encode(), True
            self._entries[spot.real] = entry
        elif (entry.deeds[-1], deed) not in _SEQUENCES:
            raise PatchError(
                f"multiple operations target {spot.shown}: first {entry.deeds[-1]}, then {deed}. "
                "Make one operation of them, or send two patches"
            )
        entry.deeds.append(deed)
        return entry

    def _look(self, spot: PatchSpot, deed: Deed, failure: str | None) -> FileState | None:
        try:
            state = self._door.read(spot.real)
        except OSError as error:
            if failure is None:
                raise _cannot_read(spot, os_text(error)) from None
            match error:
                case IsADirectoryError():
                    self._fail(failure)
                case NotADirectoryError():
                    self._fail(failure if deed == "delete" else f"Failed to create parent directories for {spot.written}")
                case _:
                    self._fail(f"{failure}: {os_text(error)}")
            return None
        if state and state.data is not None:
            self._read_bytes += len(state.data)
            if self._read_bytes > MAX_TOTAL_BYTES:
                raise PatchError(f"the files of this patch are larger than {MAX_TOTAL_BYTES} bytes together; split it")
        return state

    def _fail(self, failure: str) -> None:
        self._failure = self._failure or failure


def _text(entry: _Entry) -> str:
    if entry.before is None:
        raise _cannot_read(entry.spot, "No such file or directory (os error 2)")
    if entry.data is None:
        raise _cannot_read(entry.spot, _unread_reason(entry.before))
    try:
        return entry.data.decode()
    except UnicodeDecodeError:
        raise _cannot_read(entry.spot, "stream did not contain valid UTF-8") from None


def _cannot_read(spot: PatchSpot, reason: str) -> PatchError:
    return PatchError(f"Failed to read file to update {spot.shown}: {reason}")


def _unread_reason(state: FileState) -> str:
    too_large = state.identity[2] > MAX_FILE_BYTES
    return f"it is larger than {MAX_FILE_BYTES} bytes" if too_large else "Permission denied (os error 13)"


def _edit(entry: _Entry) -> Change:
    moved = entry.moved_to is not None and entry.data is None
    return Change(entry.spot, entry.before, entry.data, like=entry.like, moved=moved)


def _changes(entries: list[_Entry]) -> dict[str, FileChange]:
    changes: dict[str, FileChange] = {}
    for entry in entries:
        if entry.moved_from and entry.moved_from.data is None:
            continue  # reported at the entry that it comes from
        changes[entry.spot.shown] = _change(entry)
    return changes


def _change(entry: _Entry) -> FileChange:
    before = _decoded(entry.before.data if entry.before else None)
    if entry.moved_to and entry.data is None:
        return UpdateFile(_diff(before, _decoded(entry.moved_to.data)), move_path=entry.moved_to.spot.shown)
    if entry.data is None:
        return DeleteFile(before if before and len(before) <= _MAX_SHOWN_DELETED else "")
    after = _decoded(entry.data)
    if entry.before is None or before is None:
        return AddFile(after or "")
    return UpdateFile(_diff(before, after))


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _diff(before: str | None, after: str | None) -> str:
    return unified_diff(before or "", after or "", context=1)


def _summary(entries: list[_Entry]) -> str:
    groups: dict[str, list[str]] = {"A": [], "M": [], "D": []}
    for entry in entries:
        if entry.data is None and entry.moved_to:
            continue
        groups[_letter(entry)].append(entry.spot.written)
    lines = [f"{letter} {written}\n" for letter, paths in groups.items() for written in paths]
    return "Success. Updated the following files:\n" + "".join(lines)


def _letter(entry: _Entry) -> str:
    if entry.data is None:
        return "D"
    return "A" if entry.deeds[-1] == "add" and "delete" not in entry.deeds else "M"
