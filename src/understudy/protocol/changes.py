"""A file change, as it stands in the log and is shown to people. Paths are absolute."""

import msgspec


class AddFile(msgspec.Struct, frozen=True, tag="add"):
    content: str


class DeleteFile(msgspec.Struct, frozen=True, tag="delete"):
    content: str = ""


class UpdateFile(msgspec.Struct, frozen=True, tag="update"):
    unified_diff: str  # hunks only, one line of context
    move_path: str | None = None


FileChange = AddFile | DeleteFile | UpdateFile
