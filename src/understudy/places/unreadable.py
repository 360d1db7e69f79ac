"""Parts of the file system that are no files of anybody's: what the kernel shows of itself and of other processes.

A command sees its own processes in `/proc`, devices of its own in `/dev`, a `/tmp` of its own, and nothing in `/run`. This
process would see the machine's, with the environment of every process, so nothing of it is read for a model.
Lean: a process of its own searches files with this.
"""

import os
from collections.abc import Iterable
from functools import lru_cache

from understudy.places.resolving import is_within

KERNEL = ("/proc", "/sys", "/dev", "/run", "/var/run")
_MOUNTS = "/proc/self/mountinfo"
_PROCESSES = ("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "nsfs", "mqueue", "autofs")
_KNOBS = (
    "securityfs",
    "debugfs",
    "tracefs",
    "configfs",
    "efivarfs",
    "bpf",
    "pstore",
    "fusectl",
    "binfmt_misc",
    "selinuxfs",
    "nfsd",
)
_KINDS = frozenset((*_PROCESSES, *_KNOBS, "rpc_pipefs", "hugetlbfs"))


class Unreadable:
    """By path and by device: such a file system may be mounted anywhere."""

    def __init__(self, folders: Iterable[str] = KERNEL, roots: Iterable[str] = ()) -> None:
        """`roots`: folders that the user works in, which are theirs wherever they lie."""
        self._folders = tuple(folders)
        self._roots = tuple(roots)

    def covers(self, path: str, device: int) -> bool:
        """Of an absolute, real path and what was opened there."""
        if device in _kernel_devices():
            return True
        return any(is_within(path, folder) for folder in self._folders) and not any(is_within(path, root) for root in self._roots)


@lru_cache(maxsize=1)
def _kernel_devices() -> frozenset[int]:
    found: set[int] = set()
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                if after.partition(" ")[0] in _KINDS:
                    major, _, minor = before.split(" ")[2].partition(":")
                    found.add(os.makedev(int(major), int(minor)))
    except (OSError, ValueError, IndexError):
        pass  # not Linux, where these are not found by their names either
    return frozenset(found)
