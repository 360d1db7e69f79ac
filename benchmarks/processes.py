"""What a process and all its descendants use, read from /proc."""

import os
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1_000_000.0


class Memory(NamedTuple):
    """In megabytes.

    `held` is what the tree keeps resident: all of its first process, and what its descendants have for themselves. The sum
    of PSS would count less when another copy of the same program happens to run beside it.
    """

    held: float
    pss: float
    rss: float
    processes: int


def tree(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := _parent(int(entry))) is not None:
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str] | None:
    """The fields after the name; number 0 is the state."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def memory(root: int) -> Memory:
    held = pss = rss = 0.0
    pids = tree(root)
    for pid in pids:
        resident = _resident(pid)
        kinds = _rollup(pid)
        rss += resident
        pss += kinds.get("Pss", resident)
        held += resident if pid == root or not kinds else kinds["Private_Clean"] + kinds["Private_Dirty"]
    return Memory(held / MB, pss / MB, rss / MB, len(pids))


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0.0


def _rollup(pid: int) -> dict[str, float]:
    """Kinds of memory in bytes; nothing where the kernel does not let us see it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {name: int(rest.split()[0]) * 1024.0 for name, _, rest in (line.partition(":") for line in lines)}


def forget_peak(root: int) -> None:
    """Start the kernel's record of the peak anew."""
    for pid in tree(root):
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            continue


def peak(root: int) -> float:
    """The sum of what each process of the tree had resident at most, in megabytes."""
    total = 0
    for pid in tree(root):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    return total / MB


def cpu_seconds(root: int) -> float:
    total = 0
    for pid in tree(root):
        fields = _stat(pid)
        if fields:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS
