"""Files: how a file changes, what patches did, how patches were undone, and which images the model saw. Paths are absolute."""

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.records.turns import Pins

__all__ = [
    "DiffChanged",
    "FileRecord",
    "ImageViewed",
    "LeftFile",
    "PatchEnded",
    "PatchStarted",
    "Piece",
    "UndoEnded",
    "UndoStarted",
    "WorkspaceMoved",
    "WorkspaceSaveStarted",
    "WorkspaceSaved",
]


class AddFile(msgspec.Struct, frozen=True, tag="add"):
    content: str


class DeleteFile(msgspec.Struct, frozen=True, tag="delete"):
    content: str = ""


class UpdateFile(msgspec.Struct, frozen=True, tag="update"):
    unified_diff: str  # hunks only, one line of context
    move_path: str | None = None


FileChange = AddFile | DeleteFile | UpdateFile


class PatchStarted(msgspec.Struct, frozen=True, gc=False, tag="patch_started"):
    """Intent: on disk before a file is touched."""

    call_id: str
    changes: dict[str, FileChange]
    auto_approved: bool


class Piece(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A piece of a file's present content, by offset and length, that replaced `before`."""

    start: int
    length: int
    before: bytes


class LeftFile(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file as a patch left it, and how to restore its earlier content. An empty digest means that there is or was no
    such file.
    """

    path: str  # real and absolute
    after: str = ""  # digest of the content; empty: no such file
    before: str = ""  # digest of the earlier content
    mode: int = 0  # its earlier permission bits
    moved_from: str = ""  # the file that the patch moved here; its pieces refer to this file's content
    pieces: tuple[Piece, ...] | None = None  # None: too much to keep


class PatchEnded(msgspec.Struct, frozen=True, gc=False, tag="patch_ended", omit_defaults=True):
    call_id: str
    stdout: str
    stderr: str
    success: bool
    files: tuple[LeftFile, ...] | None = None  # None: the patch failed, or the record predates descriptions of files
    folders: tuple[str, ...] = ()  # folders that the patch created


class UndoStarted(msgspec.Struct, frozen=True, gc=False, tag="undo_started"):
    """Intent: the files of a turn's patches are restored, except those that have changed since the turn."""

    undo_id: str
    undone: str  # the turn
    files: tuple[str, ...]  # files that are about to be changed
    by: str = LOCAL_NAME


class UndoEnded(msgspec.Struct, frozen=True, gc=False, tag="undo_ended", omit_defaults=True):
    undo_id: str
    undone: str
    taken_back: tuple[str, ...] = ()
    left: dict[str, str] = {}  # files that were not restored, each with the reason
    problem: str = ""  # why it was not done, or why its outcome is unknown
    unknown: bool = False  # it began, and how far it got is unknown

    @property
    def complete(self) -> bool:
        return not (self.left or self.problem)

    def describe(self) -> str:
        """Text for people."""
        taken = f"took back the changes of turn {self.undone} to {_listed(self.taken_back)}" if self.taken_back else ""
        left = "; ".join(f"{path}: {why}" for path, why in list(self.left.items())[:MOST_NAMED])
        more = f"; and {len(self.left) - MOST_NAMED} more" if len(self.left) > MOST_NAMED else ""
        kept = f"left alone: {left}{more}" if left else ""
        nothing = f"nothing of turn {self.undone} had to be taken back"
        return "undo: " + (self.problem or "; ".join(part for part in (taken, kept) if part) or nothing)


MOST_NAMED = 20  # files that a line about an undo names


def _listed(paths: tuple[str, ...]) -> str:
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


class DiffChanged(msgspec.Struct, frozen=True, gc=False, tag="diff_changed"):
    unified_diff: str


class ImageViewed(msgspec.Struct, frozen=True, gc=False, tag="image_viewed"):
    """The model looked at an image; the output of the call holds it."""

    call_id: str
    path: str  # absolute, as the model named it

    def describe(self) -> str:
        """A line for people."""
        return f"looks at the image {self.path}"


class WorkspaceSaveStarted(msgspec.Struct, frozen=True, gc=False, tag="workspace_save_started"):
    """Intent: the turn is over, and its workspace is about to be saved. If no `WorkspaceSaved` follows, it may not be saved."""

    turn: str


class WorkspaceSaved(msgspec.Struct, frozen=True, gc=False, tag="workspace_saved", omit_defaults=True):
    """The outcome of saving the workspace."""

    turn: str
    ref: str = ""  # in the operator's repository of snapshots
    commit: str = ""
    problem: str = ""  # why it was not saved; it is tried again
    left_out: tuple[str, ...] = ()  # files that could not be saved, each with the reason

    def describe(self) -> str:
        """A line for people."""
        left = f"; left out: {_listed(self.left_out)}" if self.left_out else ""
        if self.problem:
            return f"the workspace after turn {self.turn} is not saved: {self.problem}{left}"
        return f"the workspace after turn {self.turn} is saved as {self.ref}{left}"


class WorkspaceMoved(msgspec.Struct, frozen=True, gc=False, tag="workspace_moved", omit_defaults=True):
    """The workspace was gone and was made again: from the snapshot after a turn, or as it was first cloned."""

    path: str
    host: str = ""
    ref: str = ""  # empty: there was no snapshot
    commit: str = ""
    turn: str = ""  # the turn after which it was saved
    lost: tuple[str, ...] = ()  # changes that the snapshot lacks, for people and the model
    pins: Pins | None = None  # of the places as they are now

    def describe(self) -> str:
        """Text for people and the model."""
        made = f"from its snapshot after turn {self.turn}" if self.ref else "from its source, since no snapshot was there"
        lost = f" Not in it: {'; '.join(self.lost[:MOST_NAMED])}." if self.lost else ""
        return f"The workspace {self.path} was gone and has been made again {made}.{lost}"


FileRecord = (
    PatchStarted
    | PatchEnded
    | ImageViewed
    | DiffChanged
    | UndoStarted
    | UndoEnded
    | WorkspaceSaveStarted
    | WorkspaceSaved
    | WorkspaceMoved
)
