"""Standard error that never blocks: what a slow reader does not take yet is kept and written later.

If a write blocked, `exec` could not receive the signal that should end it. The amount that is kept is limited: beyond that, writes
are left out, and a line says so.
"""

import asyncio
import io
import os
import select
import stat
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

LOOK_AGAIN = 0.02  # seconds between two attempts to write
MOST_WAITING = 4 * 1024 * 1024  # bytes, besides the last write, which is kept as a whole


class PatientErrors(io.TextIOBase):
    """Replaces `sys.stderr` while an event loop runs."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding
        self._waiting: deque[bytes] = deque()  # in pieces small enough to be written whenever there is room
        self._waiting_bytes = 0
        self._left_out = 0  # bytes, since something was kept
        self._line_is_whole = True  # whether the kept text ends with a whole line
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)
        self._timer: asyncio.TimerHandle | None = None
        self._failure: OSError | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._encoding

    def fileno(self) -> int:
        return 2

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        """Raises `OSError` if an earlier piece could not be written."""
        if self._failure is not None:
            raise self._failure
        data = text.encode(self._encoding, "understudy.plain")
        if self._waiting_bytes > (MOST_WAITING // 2 if self._left_out else MOST_WAITING):  # do not switch with every line
            self._left_out += len(data)
            return len(text)
        self._tell_left_out()
        self._keep(data)
        if self._timer is None:
            self._write_on()
        if self._failure is not None:
            raise self._failure
        return len(text)

    def _tell_left_out(self) -> None:
        if self._left_out:
            apart = "" if self._line_is_whole else "\n"
            told = f"{apart}understudy: {self._left_out} bytes were left out here, because nobody read them\n"
            self._left_out = 0
            self._keep(told.encode(self._encoding, "understudy.plain"))

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._waiting_bytes += len(data)
        self._line_is_whole = data.endswith(b"\n")
        if self._waiting and len(self._waiting[-1]) + len(data) <= select.PIPE_BUF:  # many small pieces would take more room
            self._waiting[-1] += data
            return
        self._waiting.extend(data[start : start + select.PIPE_BUF] for start in range(0, len(data), select.PIPE_BUF))

    def _write_on(self) -> None:
        self._timer = None
        try:
            while self._waiting and self._poll.poll(0):
                os.write(2, self._waiting[0])
                self._waiting_bytes -= len(self._waiting.popleft())
                if not self._waiting:
                    self._tell_left_out()
        except OSError as error:  # nobody reads it any more
            self._failure = error
            self.drop()
        if self._waiting:
            self._empty.clear()
            self._timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._write_on)
        else:
            self._empty.set()

    async def taken(self) -> None:
        """Wait until the reader has read everything, or has gone."""
        await self._empty.wait()

    def drop(self) -> None:
        """Do not write what is waiting."""
        self._waiting.clear()
        self._waiting_bytes = self._left_out = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@asynccontextmanager
async def patient_errors() -> AsyncGenerator[PatientErrors | None]:
    """None if writing never blocks, as for a file. Writes to a terminal are immediate, because it is also used for reading."""
    before = sys.stderr
    mode = os.fstat(2).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield None
        return
    before.flush()
    errors = PatientErrors(before.encoding)
    sys.stderr = errors
    try:
        yield errors
    finally:
        sys.stderr = before
        errors.drop()
