"""Standard error that a slow reader, or none, does not hold up: what it does not take yet is kept, and written when it does.

Blocked in a write, `exec` could not hear the signal that is to end it. What is kept has a bound: beyond it, writes are left out,
and a line says so in their place.
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

LOOK_AGAIN = 0.02  # seconds after which the reader may have taken something
MOST_WAITING = 4 * 1024 * 1024  # bytes, beside the last write, which is kept whole


class PatientErrors(io.TextIOBase):
    """In the place of `sys.stderr`, while an event loop runs."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding
        self._waiting: deque[bytes] = deque()  # in pieces that fit where there is room at all
        self._waiting_bytes = 0
        self._left_out = 0  # bytes, since something was kept
        self._line_is_whole = True  # what was kept last ends one
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
        """Raises `OSError` where an earlier piece could not be written."""
        if self._failure is not None:
            raise self._failure
        data = text.encode(self._encoding, "understudy.plain")
        if self._waiting_bytes > (MOST_WAITING // 2 if self._left_out else MOST_WAITING):  # not one line in, one line out
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
        """Wait until the reader has everything, or has gone."""
        await self._empty.wait()

    def drop(self) -> None:
        """Nothing that waits is written any more."""
        self._waiting.clear()
        self._waiting_bytes = self._left_out = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@asynccontextmanager
async def patient_errors() -> AsyncGenerator[PatientErrors | None]:
    """None where writing waits for nobody: a file. A terminal is written to at once, for it is read from, too."""
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
