"""Bytes to lines, and lines to messages. A line may be very long, and is put together only once."""

from understudy.protocol.jsonrpc import Incoming, read_line, too_long

MOST_BYTES = 128 * 1024 * 1024
KEPT_OF_OVERLONG = 2000  # enough to see whom to tell


class OverlongLine(bytes):
    """The beginning of a line that had too many bytes; the rest was not kept."""


class LineSplitter:
    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._limit = limit
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now, without their ends; blank ones are left out."""
        first, *rest = chunk.split(b"\n")
        if not rest:
            self._keep(first)
            return []
        lines: list[bytes] = []
        self._keep(first)
        if self._skipping:
            lines.append(OverlongLine(b"".join(self._pieces)))
        else:
            self._emit(b"".join(self._pieces), lines)
        self._pieces.clear()
        self._length, self._skipping = 0, False
        for line in rest[:-1]:
            self._emit(line, lines)  # within one chunk, which is never too long
        self._keep(rest[-1])
        return lines

    def rest(self) -> bytes:
        """What came after the last line end: a last line without one, at the end of the input."""
        rest = b"".join(self._pieces)
        return OverlongLine(rest) if self._skipping else rest.strip()

    def _keep(self, piece: bytes) -> None:
        if not piece or self._skipping:
            return
        self._length += len(piece)
        self._pieces.append(piece)
        if self._length > self._limit:  # keep what tells whose it is, and go on with the next line
            self._skipping = True
            self._pieces = [b"".join(self._pieces)[:KEPT_OF_OVERLONG]]

    @staticmethod
    def _emit(line: bytes, lines: list[bytes]) -> None:
        line = line.strip(b" \t\r")
        if line:
            lines.append(line)


def read_message(line: bytes) -> Incoming:
    """What a line says, also one of which only the beginning was kept."""
    return too_long(line, MOST_BYTES) if type(line) is OverlongLine else read_line(line)
