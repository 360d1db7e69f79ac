"""What the programs of a failed test wrote to standard error: often it says why."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

OURS = ("tests.", "understudy.testing")
MOST = 20_000  # characters of each, the last ones
_DEPTH = 3  # a program may be kept by a stage, and that by a scene


def logs_of(frames: Iterable[FrameType]) -> Iterator[tuple[str, str]]:
    """Title and log of each program that one of the functions held which failed."""
    seen: set[int] = set()
    for frame in frames:
        for name, value in list(frame.f_locals.items()):
            yield from _logs_in(name, value, seen, _DEPTH)


def _logs_in(name: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, str]]:
    if id(value) in seen or depth == 0 or not type(value).__module__.startswith(OURS):
        return
    seen.add(id(value))
    with suppress(Exception):  # it was never started
        text = value.stderr
        if isinstance(text, str) and text.strip():
            yield f"log of {name} ({type(value).__name__})", text[-MOST:]
            return
    for inner, held in list(getattr(value, "__dict__", {}).items()):
        yield from _logs_in(f"{name}.{inner}", held, seen, depth - 1)
