"""The memory that a cell writes to. After a fork the kernel copies each page when it is first written, one by one.

The first cell that has run a command tells the helper which pages those were. Cells that wait for a command copy them while
they wait, so that their command need not: it takes 10.0 ms instead of 10.9, the model's two answers included.
"""

import os

from . import kernel

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ENTRY = 8  # bytes for each page
_PRESENT, _OF_A_FILE, _ONLY_OURS = 1 << 63, 1 << 61, 1 << 56
_MOST_RUNS = 512

Run = tuple[int, int]  # where it begins, and its length


class Pages:
    """Opened while our own entries in /proc can be, and read when there is time."""

    def __init__(self) -> None:
        self._maps = os.open(b"/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
        self._pages = os.open(b"/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    @classmethod
    def open(cls) -> "Pages | None":
        """None where the system does not let us: what they would tell only saves time."""
        try:
            return cls()
        except OSError:
            return None

    def written(self) -> "list[Run]":
        """What we have for ourselves: the rest is still shared with the helper. Nothing where the system does not tell."""
        try:
            return self._written()
        except OSError:
            return []

    def _written(self) -> "list[Run]":
        runs: list[Run] = []
        for first, last in self._writable():
            entries = os.pread(self._pages, (last - first) // _PAGE * _ENTRY, first // _PAGE * _ENTRY)
            values = memoryview(entries).cast("Q")
            for address, value in zip(range(first, last, _PAGE), values, strict=False):
                if value & _PRESENT and value & _ONLY_OURS and not value & _OF_A_FILE:
                    if runs and sum(runs[-1]) == address:
                        runs[-1] = (runs[-1][0], runs[-1][1] + _PAGE)
                    else:
                        runs.append((address, _PAGE))
        return sorted(runs, key=lambda run: -run[1])[:_MOST_RUNS]

    def _writable(self) -> "list[tuple[int, int]]":
        text = b""
        while block := os.read(self._maps, 1 << 16):
            text += block
        fields = [line.split() for line in text.splitlines()]
        ranges = [each[0].split(b"-") for each in fields if each[1] == b"rw-p"]
        return [(int(first, 16), int(last, 16)) for first, last in ranges]


def copy_ahead(runs: "list[Run]") -> None:
    """What the kernel cannot copy so (before 5.14), or what is not there any more, is copied when it is written."""
    for first, length in runs:
        kernel.populate(first, length)
