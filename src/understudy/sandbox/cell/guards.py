"""Limits that the kernel does not keep for us: the memory of all processes together, and the room left on the disk."""

import os

from .plan import FULL, Plan

_INTERVAL = 0.25
_IDLE = 3600.0
_MEGABYTE = 1 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Guards:
    def __init__(self, plan: Plan, *, own_proc: bool, count_processes: bool) -> None:
        """`own_proc`: everything in /proc is the command's; `count_processes`: the kernel does not limit them."""
        self._memory = plan.memory_mb * _MEGABYTE if own_proc else 0
        self._processes = plan.processes if own_proc and count_processes else 0
        self._floors = _floors(plan)
        self.interval = _INTERVAL if self._memory or self._processes or self._floors else _IDLE

    def broken(self) -> bytes | None:
        """The name of a limit that is broken now."""
        if self._processes and len(_processes()) > self._processes:
            return b"processes"
        if self._memory and _memory_of_all() > self._memory:
            return b"memory"
        for path, floor in self._floors:
            if _room(path) < floor:
                return b"disk"
        return None


def _floors(plan: Plan) -> "list[tuple[bytes, int]]":
    """How much must stay free where the command may write: the configured room, or half of what there was, if that is less."""
    if not plan.disk_free_mb:
        return []
    folders = [*plan.roots, b"/tmp"] if plan.shape == FULL else [*plan.roots, plan.private_tmp]
    return [(path, min(plan.disk_free_mb * _MEGABYTE, _room(path) // 2)) for path in folders if path]


def _room(path: bytes) -> int:
    try:
        disk = os.statvfs(path)
    except OSError:
        return 1 << 62
    return disk.f_bavail * disk.f_frsize


def _processes() -> "list[bytes]":
    return [name for name in os.listdir(b"/proc") if name.isdigit() and name != b"1"]


def _memory_of_all() -> int:
    """Bytes that processes other than us have to themselves. Shared memory is counted where it is limited, in /dev/shm."""
    pages = 0
    for name in _processes():
        try:
            descriptor = os.open(b"/proc/" + name + b"/statm", os.O_RDONLY | os.O_CLOEXEC)
            fields = os.read(descriptor, 200).split()
            os.close(descriptor)
        except OSError:
            continue
        pages += int(fields[1]) - int(fields[2])
    return pages * _PAGE
