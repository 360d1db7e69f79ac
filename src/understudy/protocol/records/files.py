"""Files: what patches did to them, and which images the model looked at."""

import msgspec

from understudy.protocol.changes import FileChange


class PatchStarted(msgspec.Struct, frozen=True, gc=False, tag="patch_started"):
    """Intent: on disk before a file is touched."""

    call_id: str
    changes: dict[str, FileChange]
    auto_approved: bool


class PatchEnded(msgspec.Struct, frozen=True, gc=False, tag="patch_ended"):
    call_id: str
    stdout: str
    stderr: str
    success: bool


class DiffChanged(msgspec.Struct, frozen=True, gc=False, tag="diff_changed"):
    unified_diff: str


class ImageViewed(msgspec.Struct, frozen=True, gc=False, tag="image_viewed"):
    """The image itself is in the output of the call."""

    call_id: str
    path: str  # absolute, as the model named it
