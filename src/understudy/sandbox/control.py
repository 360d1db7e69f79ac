"""Lets whoever started a command type at its terminal and stop it."""

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

MOST_UNSENT = 1 << 16  # bytes that may wait for a program which does not read
_INTERRUPT = b"\x03"
_SIGNAL = 0x40045436  # TIOCSIG of Linux


class Control:
    """Belongs to one command. Before the command begins, input waits; after its end, none is accepted."""

    def __init__(self, *, terminal: bool = False) -> None:
        """`terminal`: give the command a terminal as its standard input and outputs; otherwise it has no input."""
        self.terminal = terminal
        self._waiting = 0
        self._wake: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._master = -1
        self._unsent = bytearray()
        self._stop: Callable[[], None] | None = None
        self._to_stop = False  # asked before the command began
        self._over = False

    def write(self, data: bytes) -> bool:
        """Type this. Returns False, and does nothing, if there is no terminal, the command is over, or it has not read earlier
        input."""
        if not self.terminal or self._over:
            return False
        if _INTERRUPT in data and self._unsent and self._master >= 0:
            self._interrupt()
            data = data[data.rindex(_INTERRUPT) + 1 :]
        if len(self._unsent) + len(data) > MOST_UNSENT:
            return False
        self._unsent += data
        self._flush()
        return True

    def stop(self) -> None:
        """Ask the command and all that it started to end; a moment later they are killed."""
        self._to_stop = True
        if self._stop is not None and not self._over:
            self._stop()

    @contextmanager
    def awaited(self) -> Generator[None]:
        """While this lasts, somebody waits for its output or its end, so its output is read as fast as it comes."""
        self._waiting += 1
        if self._wake is not None and not self._over:
            self._wake()
        try:
            yield
        finally:
            self._waiting -= 1

    @property
    def is_awaited(self) -> bool:
        return self._waiting > 0

    # -- for the sandbox

    def begin(self, stop: Callable[[], None], wake: Callable[[], None] | None = None) -> None:
        """`wake` is called when somebody begins to wait."""
        self._stop, self._wake = stop, wake
        if self._to_stop:
            stop()

    def attach(self, loop: asyncio.AbstractEventLoop, master: int) -> None:
        """The terminal exists now. The caller closes its descriptor, after `end`."""
        self._loop, self._master = loop, master
        self._flush()

    def end(self) -> None:
        self._over = True
        self._unsent.clear()
        if self._loop is not None and self._master >= 0:
            self._loop.remove_writer(self._master)
            self._master = -1

    def _flush(self) -> None:
        if self._loop is None or self._master < 0:
            return
        try:
            while self._unsent:
                del self._unsent[: os.write(self._master, self._unsent)]
        except BlockingIOError:
            self._loop.add_writer(self._master, self._flush)
            return
        except OSError:  # the command has just ended
            self._unsent.clear()
        self._loop.remove_writer(self._master)

    def _interrupt(self) -> None:
        """Send an interrupt ahead of input that nobody reads, and drop that input: behind it, the interrupt would never arrive."""
        self._unsent.clear()
        try:
            fcntl.ioctl(self._master, _SIGNAL, int(signal.SIGINT))
        except OSError:
            pass  # the command has just ended
