"""Where the store is, and whether SQLite's write-ahead log is safe there.

The processes that use the log share memory, which network file systems do not support.
"""

import os
import time
from pathlib import Path

from understudy.errors import StoreError, what_is_lacking

DATABASE = "conversations.db"
SEARCH_INDEX = "search.db"  # beside the store; may be deleted, and is then rebuilt from it
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "ncpfs", "ocfs2", "gfs2", "davfs"}
    | {f"fuse.{kind}" for kind in ("glusterfs", "sshfs", "s3fs", "davfs", "rclone")}
)


def prepare_folder(folder: Path) -> None:
    """Make the folder for our state, readable only by its owner. Raises `StoreError` if that fails."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        reason = what_is_lacking(error) or f"{error.strerror}; set CODEX_HOME to a folder you can write to"
        raise StoreError(f"cannot use {folder} for conversations: {reason}") from error


def refuse_network_file_system(folder: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    try:
        kind = file_system_of(folder.resolve(), mountinfo.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return  # no such table on this platform
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{folder} is on a network file system ({kind}), where conversations could be damaged; "
            "set CODEX_HOME to a folder on a local disk"
        )


_COARSE = 2_000_000_000  # nanoseconds; no common file system has coarser times
_FINE = 50_000_000  # for file systems that store fractions of a second: their clock ticks at least every ten milliseconds


class FolderTime:
    """Adding or removing a file changes the folder's time: while that stays the same, its files need not be looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def now(self) -> tuple[int, int, int] | None:
        """The folder's time; None if it is too recent to trust: file systems have coarse clocks, so two changes may get the same
        time."""
        try:
            found = os.stat(self._folder)
        except OSError:
            return None
        grain = _FINE if found.st_ctime_ns % 1_000_000_000 else _COARSE
        if abs(time.time_ns() - found.st_ctime_ns) < grain:
            return None
        return found.st_dev, found.st_ino, found.st_ctime_ns  # ctime, not mtime, which a program can set back


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """The type of the file system that holds `path`, according to the kernel's table of mounts."""
    best, kind = -1, None
    text = str(path)
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5:
            continue
        mount = _unescape(fields[4])
        inside = text == mount or text.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= best:  # a later mount on the same point hides the earlier one
            best, kind = len(mount), after.split()[0]
    return kind


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field
