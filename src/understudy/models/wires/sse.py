"""Server-sent events: bytes in, `data` payloads out. No I/O; the result is the same however the bytes are cut into chunks."""

from understudy.models.wires.wire import EVENT_LIMIT

LINES_LIMIT = 1024 * 1024  # of one event
BOM = b"\xef\xbb\xbf"


class EventTooLarge(Exception):
    """An event grew beyond the limit without ending."""


class SseSplitter:
    """Only uses `data`, because the wires repeat the kind of an event inside it."""

    __slots__ = ("_after_cr", "_data", "_held", "_limit", "_partial", "_started", "lines")

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._partial = bytearray()  # of an unfinished line
        self._data: list[bytes] = []  # the data lines of an unfinished event
        self._held = 0  # upper bound of the bytes in both
        self._after_cr = False
        self._started = False
        self.lines = 0  # complete lines so far, including comments

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that this chunk completes. Raises EventTooLarge."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == 10:  # the second half of a CRLF
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\r" in chunk:
            lines = chunk.splitlines()  # bytes: splits only at CR, LF and CRLF
            last = chunk[-1]
            self._after_cr = last == 13
            partial = b"" if last in (10, 13) else lines.pop()
        else:
            lines = chunk.split(b"\n")  # a quarter of the instructions
            partial = lines.pop()
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial.clear()
        if partial:
            self._partial += partial
        payloads = self._take(lines) if lines else []
        if self._partial or self._data:
            self._count(len(chunk), fresh=bool(payloads))
        else:
            self._held = 0
        return payloads

    def close(self) -> list[bytes]:
        """At the end: the rest, for servers that leave out the last blank line."""
        line = bytes(self._partial)
        self._partial.clear()
        return self._take([line, b""])

    def _take(self, lines: list[bytes]) -> list[bytes]:
        if not self._started:
            self._started = True
            lines[0] = lines[0].removeprefix(BOM)
        self.lines += len(lines)
        data = self._data
        only: bytes | None = None  # of an event with a single data line so far, as nearly all have
        payloads: list[bytes] = []
        for line in lines:
            if not line:
                if only is not None:
                    payloads.append(only)
                    only = None
                elif data:
                    payloads.append(b"\n".join(data))
                    data.clear()
            elif line[:4] == b"data":
                if line[4:6] == b": ":
                    said = line[6:]
                elif line[4:5] == b":" or len(line) == 4:
                    said = line[5:]
                else:
                    continue
                if data:
                    data.append(said)
                elif only is None:
                    only = said
                else:
                    data += (only, said)
                    only = None
        if only is not None:
            data.append(only)
        return payloads

    def _count(self, size: int, *, fresh: bool) -> None:
        self._held = size if fresh else self._held + size
        if self._held > self._limit or len(self._data) > LINES_LIMIT:
            raise EventTooLarge(f"an event of more than {self._limit} bytes")
