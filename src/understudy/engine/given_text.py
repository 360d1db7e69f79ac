"""How much of the unfinished items a viewer has been given, so that what it is given later repeats nothing."""

from binascii import crc32
from collections.abc import Mapping

from understudy.engine.text_so_far import OUTPUT, RAW, REASONING, TEXT, TextSoFar, finished_by
from understudy.protocol.records import Delta, OutputDelta, ReasoningDelta, Record, TextDelta


class GivenText:
    """Lengths, by item."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}

    def length(self, key: str) -> int:
        return self._lengths.get(key, 0)

    def add(self, delta: Delta) -> None:
        if type(delta) is TextDelta:  # nearly all of them
            self._lengths[TEXT] = self._lengths.get(TEXT, 0) + len(delta.text)
            return
        key, length = _measure(delta)
        self._lengths[key] = self._lengths.get(key, 0) + length

    def finish(self, record: Record) -> None:
        if not self._lengths:
            return
        gone = finished_by(record)
        if gone == (TEXT,):  # nearly always; no other key begins like it
            if TEXT in self._lengths:
                del self._lengths[TEXT]
        elif gone:
            self._lengths = {key: length for key, length in self._lengths.items() if not key.startswith(gone)}

    def marks(self) -> dict[str, int]:
        """The lengths under short names, for a viewer that may come back."""
        if not self._lengths:
            return {}
        return {_mark_of(key): length for key, length in self._lengths.items() if length}

    def restore(self, marks: Mapping[str, int], text: TextSoFar) -> None:
        """What `marks` said earlier is given; `text` has the full names of what commands have printed."""
        keys = [TEXT, REASONING, RAW, *(_measure(delta)[0] for delta in text.deltas())]
        self._lengths = {key: marks[_mark_of(key)] for key in keys if _mark_of(key) in marks}

    def missing(self, text: TextSoFar) -> list[Delta]:
        found: list[Delta] = []
        for delta in text.deltas():
            key, length = _measure(delta)
            given = self.length(key)
            if given < length:
                found.append(_after(delta, given))
        return found


_MARKS = {TEXT: "t", REASONING: "r", RAW: "w"}


def _mark_of(key: str) -> str:
    return _MARKS.get(key) or f"o{crc32(key.encode(errors='replace')):08x}"


def _measure(delta: Delta) -> tuple[str, int]:
    match delta:
        case TextDelta(text=text):
            return TEXT, len(text)
        case ReasoningDelta(text=text, raw=raw):
            return (RAW if raw else REASONING), len(text)
        case OutputDelta() as output:
            return f"{OUTPUT} {output.call_id} {output.stream}", len(output.chunk)


def _after(delta: Delta, given: int) -> Delta:
    match delta:
        case TextDelta(text=text):
            return TextDelta(text[given:])
        case ReasoningDelta(text=text, raw=raw):
            return ReasoningDelta(text[given:], raw)
        case OutputDelta() as output:
            return OutputDelta(output.call_id, output.stream, output.chunk[given:])
