"""The real program in a real terminal, whose screen can be read. Every wait is for something to appear on it, and has a bound."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

import pyte

from tests.cli.program import LONGEST, Program

ESC, ENTER, TAB, CTRL_C, CTRL_D, CTRL_O, UP = "\x1b", "\r", "\t", "\x03", "\x04", "\x0f", "\x1b[A"


class Terminal:
    """A program that runs in a terminal of its own."""

    def __init__(
        self,
        program: Program,
        *words: str,
        columns: int = 100,
        lines: int = 40,
        env: Mapping[str, str] | None = None,
        encoding: str = "utf-8",
        command: Sequence[str] = (sys.executable, "-m", "understudy"),
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, lines, history=20_000, ratio=0.001)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._master, theirs = pty.openpty()
        self._set_size(theirs, columns, lines)
        self._hung_up = False
        self.initial_settings = self.settings()
        self.raw = b""  # all that was written to the terminal
        environment = program.environment({"TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})})
        self.process = subprocess.Popen(
            [*command, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=program.cwd,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        if not self._hung_up:
            os.close(self._master)

    def hang_up(self) -> None:
        """As when the window is closed, or the line breaks."""
        self._hung_up = True
        os.close(self._master)

    def settings(self) -> list[object]:
        """Of the terminal: echo, lines, signals."""
        return termios.tcgetattr(self._master)

    # -- typing

    def type(self, text: str) -> None:
        self.type_bytes(text.encode())

    def type_bytes(self, data: bytes) -> None:
        deadline = time.monotonic() + LONGEST
        while data:  # a terminal takes only so much at once, and the program may be writing
            ready, free, _ = select.select([self._master], [self._master], [], max(0.0, deadline - time.monotonic()))
            assert ready or free, "the program takes no input"
            if ready:
                self._read()
            if free:
                data = data[os.write(self._master, data[:1024]) :]

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)
        self._set_size(self._master, columns, lines)

    def _set_size(self, descriptor: int, columns: int, lines: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    # -- looking

    @property
    def display(self) -> str:
        """What can be seen now."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def text(self) -> str:
        """With all that has scrolled away."""
        gone = ("".join(line[column].data for column in range(self._screen.columns)) for line in self._screen.history.top)
        return "\n".join([*(line.rstrip() for line in gone), self.display])

    def wait(self, wanted: str | Callable[[str], bool], *, gone: str | None = None) -> str:
        """Until the text is on the screen or above it, and `gone` is not on it. What can be seen then."""
        deadline = time.monotonic() + LONGEST
        while True:
            seen = self.text
            found = wanted(seen) if callable(wanted) else wanted in seen
            if found and (gone is None or gone not in self.display):
                return self.display
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited in vain for {wanted!r} without {gone!r}:\n{seen}"
            assert self._read(), f"it ended before {wanted!r} came:\n{self.text}"

    def wait_for_turn(self, told: str) -> str:
        """Until the turn is over in which this was told: a line with the time it took comes last."""
        over = re.compile(re.escape(told) + r"[\s\S]*\n  \d[\d.]* (s|min)")
        return self.wait(lambda text: over.search(text) is not None)

    def wait_until_sent(self, message: str) -> str:
        """Until it stands above the line that is being typed, and no more in that line."""
        sent = re.compile(f"❯ {re.escape(message)}\n(.*\n)*❯\n")
        return self.wait(lambda text: sent.search(text) is not None)

    def leave_with_ctrl_c(self) -> int:
        """The exit code. Pressed twice more, at once: on a slow machine the first press may be too long ago to count."""
        self.type(CTRL_C)
        self.wait("Ctrl-C again leaves")
        self.type(CTRL_C + CTRL_C)
        return self.wait_for_end()

    def wait_for_end(self) -> int:
        """The exit code."""
        deadline = time.monotonic() + LONGEST
        while True:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"it did not end:\n{self.text}"
            if not self._read():
                return self.process.wait(LONGEST)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LONGEST)

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux says so when the other side is gone
            data = b""
        self.raw += data
        self._stream.feed(self._decoder.decode(data))
        return bool(data)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
