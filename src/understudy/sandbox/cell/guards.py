"""Limits that the kernel does not enforce for us: memory of all processes together, free space on the disks, the size of /tmp."""

import os
import time

from . import trees
from .plan import FULL, Plan

_INTERVAL = 0.25
_IDLE = 3600.0
_MEGABYTE = 1 << 20
_FREE_INODES = 4096
_PART = 8  # of a small disk: what must stay free
_FRACTION = 16  # of a quota: how much may be added before it is measured again
_REST = 10  # how many times as long as measuring took we wait before we measure again

Room = tuple[int, int]  # bytes and inodes


class LimitGuards:
    def __init__(self, plan: Plan, *, own_proc: bool, count_processes: bool, private_tmp: bytes) -> None:
        """`own_proc`: all processes in /proc are the command's; `count_processes`: the kernel does not limit their number.

        `private_tmp`: the path of the conversation's /tmp as we see it; empty if it is not in use.
        """
        self._memory = plan.memory_mb * _MEGABYTE if own_proc else 0
        self._processes = plan.processes if own_proc and count_processes else 0
        self._floors = _floors(plan)
        most = (plan.tmp_mb * _MEGABYTE, plan.tmp_files)
        self._quota = Quota(private_tmp, most, [*plan.roots, plan.workspace]) if private_tmp else None
        self.interval = _INTERVAL if self._memory or self._processes or self._floors or self._quota else _IDLE

    def broken(self) -> bytes | None:
        """The name of a limit that is exceeded now."""
        if self._processes and len(_processes()) > self._processes:
            return b"processes"
        if self._memory and _memory_of_all(self._memory) > self._memory:
            return b"memory"
        for path, floor in self._floors:
            if is_below(room(path), floor):
                return b"disk"
        return b"tmp" if self._quota is not None and self._quota.is_broken() else None


class Quota:
    """A limit on a folder, measured only if its disk has got so much fuller that the limit may be exceeded."""

    def __init__(self, path: bytes, most: Room, others: "list[bytes]") -> None:
        """`most` 0: no limit; `others`: folders that may be mounted inside this one and do not count."""
        self._path = path
        self._others = others
        self._most = (most[0] or 1 << 62, most[1] or 1 << 62)
        self._slack = (self._most[0] // _FRACTION, self._most[1] // _FRACTION)
        self._room = room(path)
        self._rested = 0.0

    def is_broken(self) -> bool:
        now = room(self._path)
        self._room = (max(self._room[0], now[0]), max(self._room[1], now[1]))
        if not is_below(now, (self._room[0] - self._slack[0], self._room[1] - self._slack[1])):
            return False
        began = time.monotonic()
        if began < self._rested:
            return False
        try:
            skipped = frozenset(trees.identities(self._others))
            used = trees.measure(self._path, most_bytes=self._most[0], most_files=self._most[1], open_all=False, skipped=skipped)
        except OSError:
            return False
        took = time.monotonic() - began
        self._rested = began + took * (1 + _REST)
        self._room = now
        left = [max(most // _FRACTION, most - part) for most, part in zip(self._most, used, strict=True)]
        self._slack = (left[0], left[1])
        return used[0] > self._most[0] or used[1] > self._most[1]


def _floors(plan: Plan) -> "list[tuple[bytes, Room]]":
    """How much must stay free on the disks where the command may write."""
    if not plan.disk_free_mb:
        return []
    folders = list(plan.roots)
    if plan.private_tmp:
        folders.append(b"/tmp" if plan.shape == FULL else plan.private_tmp)
    return [(path, floor_of(path, plan.disk_free_mb)) for path in folders]


def floor_of(path: bytes, free_mb: int) -> Room:
    """The wanted free space, or half of what is free now if that is less."""
    disk = _disk(path)
    wanted, now = _wanted(disk, free_mb), _free(disk)
    return (min(wanted[0], now[0] // 2), min(wanted[1], now[1] // 2))


def wanted_room(path: bytes, free_mb: int) -> Room:
    """What should stay free: so many megabytes and some thousand inodes, or an eighth of a small disk."""
    return _wanted(_disk(path), free_mb)


def room(path: bytes) -> Room:
    """Free space on the disk of `path`. Some file systems do not count inodes, so those never run out."""
    return _free(_disk(path))


def _disk(path: bytes) -> "os.statvfs_result | None":
    try:
        return os.statvfs(path)
    except OSError:
        return None


def _wanted(disk: "os.statvfs_result | None", free_mb: int) -> Room:
    if disk is None:
        return (0, 0)
    size = disk.f_blocks * disk.f_frsize
    return (min(free_mb * _MEGABYTE, size // _PART), min(_FREE_INODES, disk.f_files // _PART))


def _free(disk: "os.statvfs_result | None") -> Room:
    if disk is None:
        return (1 << 62, 1 << 62)
    return (disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else 1 << 62)


def is_below(now: Room, floor: Room) -> bool:
    return now[0] < floor[0] or now[1] < floor[1]


def _processes() -> "list[bytes]":
    return [name for name in os.listdir(b"/proc") if name.isdigit() and name != b"1"]


def _memory_of_all(most: int) -> int:
    """Bytes used by all processes but us, shared memory counted once; exact only if it may be too much."""
    names = _processes()
    total = sum(_fields(name, b"status", (b"RssAnon:", b"RssShmem:")) for name in names)
    if total <= most:
        return total
    # Shared memory was counted for each process. The exact sum costs more, because the kernel visits all their pages.
    return sum(
        _fields(name, b"smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:")) or _fields(name, b"status", (b"RssAnon:", b"RssShmem:"))
        for name in names
    )


def _fields(process: bytes, file: bytes, wanted: "tuple[bytes, ...]") -> int:
    """The sum of some fields, in kB, of a file in /proc about a process; 0 if it cannot be read."""
    try:
        descriptor = os.open(b"/proc/" + process + b"/" + file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = os.read(descriptor, 1 << 16).splitlines()
        finally:
            os.close(descriptor)
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(wanted))
