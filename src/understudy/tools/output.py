"""Keeps a command's output: all of it if it is short, otherwise its head and tail with a mark between them."""

from collections import deque

import msgspec

MODEL_BYTES = 10 * 1024
MODEL_LINES = 256
EVENT_BYTES = 48 * 1024
LIVE_BYTES = 1024 * 1024
DELTA_BYTES = 8 * 1024


FILE_BYTES = 24 * 1024  # of a file that a model reads, unless the user chooses otherwise
BYTES_PER_TOKEN = 4


MOST_TOKENS = 1_000_000  # whatever is configured, because an output is kept in memory


def bytes_for(tokens: int | None, otherwise: int) -> int:
    """The most bytes that a model gets of one output; `tokens`: as configured."""
    return otherwise if tokens is None else min(tokens, MOST_TOKENS) * BYTES_PER_TOKEN


def file_bytes(tokens: int | None) -> int:
    return bytes_for(tokens, FILE_BYTES)


class HeadTail:
    """Keeps at most `limit` bytes: the first half of the limit from the head, the other from the tail."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._limit = limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_length = 0
        self.length = 0
        self.lines = 0

    def feed(self, chunk: bytes) -> None:
        self.length += len(chunk)
        self.lines += chunk.count(b"\n")
        room = self._limit - len(self._head)
        if room > 0 and not self._tail:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk:
            return
        self._tail.append(chunk[-self._limit :])
        self._tail_length += len(self._tail[-1])
        while self._tail_length - len(self._tail[0]) >= self._limit:
            self._tail_length -= len(self._tail.popleft())

    @property
    def whole(self) -> bool:
        return self.length <= self._limit

    def head(self) -> bytes:
        """The first bytes, up to the limit."""
        return bytes(self._head)

    def tail(self) -> bytes:
        """The last bytes, up to the limit."""
        if self.length <= self._limit:
            return bytes(self._head)
        kept = b"".join(self._tail)
        missing = self._limit - len(kept)
        return (bytes(self._head[-missing:]) if missing > 0 else b"") + kept[-self._limit :]

    def text(self) -> str:
        """For people: whole, or head, mark and tail within the limit."""
        if self.whole:
            return self._head.decode("utf-8", "replace")
        omitted = self.length - 2 * self._half
        head = self._head[: self._half].decode("utf-8", "replace")
        tail = self.tail()[-self._half :].decode("utf-8", "replace")
        return f"{head}\n[... omitted {omitted} of {self.length} bytes ...]\n{tail}"


class ForModel:
    """The output as a model gets it: both streams in the order read, within 10 KiB and 256 lines, or within the configured
    tokens."""

    def __init__(self, tokens: int | None = None) -> None:
        self._bytes = bytes_for(tokens, MODEL_BYTES)
        self._lines = MODEL_LINES if tokens is None else self._bytes  # with a limit in tokens, lines do not count
        self._kept = HeadTail(self._bytes)

    def feed(self, chunk: bytes) -> None:
        self._kept.feed(chunk)

    def text(self) -> str:
        kept = self._kept
        total_lines = kept.lines + int(not kept.tail().endswith(b"\n") and kept.length > 0)
        if kept.whole and total_lines <= self._lines:
            return kept.head().decode("utf-8", "replace")
        return _head_mark_tail(kept, total_lines, self._bytes, self._lines)


def _head_mark_tail(kept: HeadTail, total_lines: int, most: int, most_lines: int) -> str:
    half_lines = most_lines // 2
    head = _cut_to_characters(b"".join(kept.head().splitlines(keepends=True)[:half_lines]), most // 2, from_end=False)
    tail_lines = kept.tail().splitlines(keepends=True)[-half_lines:]
    omitted_lines = total_lines - 2 * half_lines
    mark = _mark(omitted_lines, total_lines) if omitted_lines > 0 else ""
    room = max(most - len(head.encode()) - 80, 1)  # the mark and its blank lines
    tail = _cut_to_characters(b"".join(tail_lines), room, from_end=True)
    if not mark:
        mark = f"[... omitted {kept.length - len(head.encode()) - len(tail.encode())} of {kept.length} bytes ...]"
    return f"{head.rstrip(chr(10))}\n{mark}\n\n{tail}"


def _mark(omitted: int, total: int) -> str:
    return f"[... omitted {omitted} of {total} lines ...]"


def _cut_to_characters(raw: bytes, limit: int, *, from_end: bool) -> str:
    """Decode at most `limit` bytes of UTF-8, without half a character at the cut."""
    cut = raw[-limit:] if from_end else raw[:limit]
    if len(cut) < len(raw):
        if from_end:
            while cut and cut[0] & 0xC0 == 0x80:
                cut = cut[1:]
        else:
            cut = cut[: whole_prefix(cut)]
    decoded = cut.decode("utf-8", "replace")
    while len(decoded.encode()) > limit:  # replacement characters are longer than the bytes that they replace
        excess = max(1, (len(decoded.encode()) - limit) // 3)
        decoded = decoded[excess:] if from_end else decoded[:-excess]
    return decoded


def whole_prefix(raw: bytes) -> int:
    """The length of `raw` without an incomplete character at its end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
        return len(raw) - back if needed > back else len(raw)
    return len(raw)


class _Metadata(msgspec.Struct, frozen=True):
    exit_code: int
    duration_seconds: float


class _ForModel(msgspec.Struct, frozen=True):
    output: str
    metadata: _Metadata


def model_text(output: str, exit_code: int, seconds: float) -> str:
    """A command's outcome as the model reads it: JSON, in a string."""
    return msgspec.json.encode(_ForModel(output, _Metadata(exit_code, round(seconds, 1)))).decode()
