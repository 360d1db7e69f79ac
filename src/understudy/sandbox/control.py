"""A hold on a command that runs, for whoever started it: what is typed at its terminal, and a way to stop it."""

import asyncio
import fcntl
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

MOST_UNSENT = 1 << 16  # bytes that wait for a program which does not read
_INTERRUPT = b"\x03"
_SIGNAL = 0x40045436  # TIOCSIG, of Linux


class Control:
    """Given to one command. Before it has begun, input waits; once it is over, nothing is taken any more."""

    def __init__(self, *, terminal: bool = False) -> None:
        """`terminal`: the command gets one, as its standard input and outputs; without, it has no input."""
        self.terminal = terminal
        self._waiting = 0
        self._wake: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._master = -1
        self._unsent = bytearray()
        self._stop: Callable[[], None] | None = None
        self._to_stop = False  # said before it has begun
        self._over = False

    def write(self, data: bytes) -> bool:
        """Type this. False, and nothing is done, where it has no terminal, is over, or does not read what was typed before."""
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
        """Ask it and all that it started to end; a moment later they are ended."""
        self._to_stop = True
        if self._stop is not None and not self._over:
            self._stop()

    @contextmanager
    def awaited(self) -> Generator[None]:
        """Somebody waits meanwhile for what it prints or for its end, so its output is read as fast as it comes."""
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
        """`wake`: somebody waits from now on."""
        self._stop, self._wake = stop, wake
        if self._to_stop:
            stop()

    def attach(self, loop: asyncio.AbstractEventLoop, master: int) -> None:
        """The terminal is there. Its descriptor is the caller's to close, after `end`."""
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
        except OSError:  # it has just ended
            self._unsent.clear()
        self._loop.remove_writer(self._master)

    def _interrupt(self) -> None:
        """An interrupt behind input that nobody reads would never arrive: it goes ahead, and that input goes."""
        self._unsent.clear()
        try:
            fcntl.ioctl(self._master, _SIGNAL, int(signal.SIGINT))
        except OSError:
            pass  # it has just ended
