"""What `strace -f` wrote, counted by name: system calls of the server and of everything that it started."""

import re
from collections import Counter
from pathlib import Path

SystemCalls = Counter[str]

_LINE = re.compile(rb"^(\d+) +(\w+)\(")
_MARK = re.compile(rb'^(\d+) +access\("/budget/([^"]+)"')


class Trace:
    """All of it, once its server has ended."""

    def __init__(self, file: Path) -> None:
        lines = file.read_bytes().splitlines()
        marker = next((mark[1] for line in lines if (mark := _MARK.match(line))), b"")  # the thread that sets marks does not count
        so_far: SystemCalls = Counter()
        self._at: dict[str, SystemCalls] = {"": Counter()}
        for line in lines:
            if mark := _MARK.match(line):
                self._at[mark[2].decode()] = so_far.copy()
            elif (found := _LINE.match(line)) is not None and found[1] != marker:
                so_far[found[2].decode()] += 1

    def between(self, begin: str, end: str) -> SystemCalls:
        """Two marks; the start where `begin` is empty."""
        return self._at[end] - self._at[begin]
