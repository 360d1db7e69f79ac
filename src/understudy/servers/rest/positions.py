"""Ids of events: `RECORD.NUMBER`, and how much of unfinished texts was given by then. They say by themselves where a stream stands,
so that any process can resume it from the log.
"""

import re
from collections.abc import Mapping

import msgspec

_FORM = re.compile(r"(\d{1,15})(?:\.(\d{1,6})(?:\.([a-z0-9-]{1,4000}))?)?", re.ASCII)
_GIVEN = re.compile(r"([trw]|o[0-9a-f]{8})-(\d{1,15})", re.ASCII)


class EventPosition(msgspec.Struct, frozen=True):
    record: int
    events: int | None = None  # of that record; None: all
    given: Mapping[str, int] = {}


def write_position(record: int, events: int, given: Mapping[str, int]) -> bytes:
    text = f"{record}.{events}"
    return (text + "." + "--".join([f"{mark}-{length}" for mark, length in given.items()]) if given else text).encode()


def read_position(text: str) -> EventPosition | None:
    """None for what is none of ours."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    given: dict[str, int] = {}
    for part in (found[3] or "").split("--") if found[3] else ():
        mark = _GIVEN.fullmatch(part)
        if mark is None:
            return None
        given[mark[1]] = int(mark[2])
    return EventPosition(int(found[1]), None if found[2] is None else int(found[2]), given)
