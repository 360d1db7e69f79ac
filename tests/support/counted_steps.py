"""Counts what a server does between two looks at its input: a program that is given the server's command, and runs it in itself.

    python counted_steps.py FILE python -m understudy serve …

Calls of Python and C functions on the event loop's thread, and bytes read, written and unpacked. `Steps` is the side of the test,
which reads the largest step so far from FILE. Counted and not timed: the figures are the same on a busy machine.

The loop is asyncio's own, whose iterations can be seen; that it is not uvloop changes nothing of what one callback of ours does.
"""

from __future__ import annotations

import mmap
import runpy
import selectors
import socket
import struct
import sys
import threading
import zlib
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

_FORM = struct.Struct("5q")  # steps, most calls, most bytes read, written, unpacked
_SIZE = 4096  # after the figures: where the step with the most calls was
_SAMPLED = 64  # one call in so many is remembered by name


class Steps:
    """What the largest steps were since `reset`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "steps"
        self._path.write_bytes(bytes(_SIZE))

    @property
    def started_by(self) -> tuple[str, ...]:
        """For the command line of a server."""
        return (sys.executable, __file__, str(self._path))

    def reset(self) -> None:
        with self._path.open("r+b") as file:
            file.write(bytes(_SIZE))

    def _read(self) -> bytes:
        return self._path.read_bytes()

    @property
    def count(self) -> int:
        return _FORM.unpack_from(self._read())[0]

    @property
    def calls(self) -> int:
        return _FORM.unpack_from(self._read())[1]

    @property
    def bytes_read(self) -> int:
        return _FORM.unpack_from(self._read())[2]

    @property
    def bytes_written(self) -> int:
        return _FORM.unpack_from(self._read())[3]

    @property
    def bytes_unpacked(self) -> int:
        return _FORM.unpack_from(self._read())[4]

    @property
    def where(self) -> str:
        """The functions that the step with the most calls spent them in."""
        return self._read()[_FORM.size :].rstrip(b"\0").decode(errors="replace")


class _Meter:
    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _SIZE)
        self.read = self.written = self.unpacked = 0
        self._calls = 0
        self._sampled: Counter[Any] = Counter()

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" or event == "c_call":
            self._calls += 1
            if not self._calls % _SAMPLED:
                self._sampled[frame.f_code] += 1

    def step(self) -> None:
        calls, self._calls = self._calls, 0
        steps, most_calls, most_read, most_written, most_unpacked = _FORM.unpack_from(self._shared)
        read, written, unpacked = max(most_read, self.read), max(most_written, self.written), max(most_unpacked, self.unpacked)
        _FORM.pack_into(self._shared, 0, steps + 1, max(most_calls, calls), read, written, unpacked)
        if calls > most_calls:
            found = [f"{count * _SAMPLED} {code.co_qualname} ({code.co_filename})" for code, count in self._sampled.most_common(12)]
            told = "\n".join([f"{calls} calls in one step:", *found]).encode()[: _SIZE - _FORM.size]
            self._shared[_FORM.size :] = told.ljust(_SIZE - _FORM.size, b"\0")
        self._sampled.clear()
        self.read = self.written = self.unpacked = 0


def _run(path: str, arguments: list[str]) -> None:
    meter = _Meter(path)
    main = threading.get_ident()

    class Selector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> Any:
            if threading.get_ident() != main:
                return super().select(timeout)
            sys.setprofile(None)
            meter.step()
            found = super().select(timeout)
            sys.setprofile(meter.hook)
            return found

    class Unpacker:
        """`zlib.decompressobj`, counted."""

        def __init__(self, *arguments: Any) -> None:
            self._real = _decompressobj(*arguments)

        def decompress(self, data: bytes, most: int = 0) -> bytes:
            unpacked = self._real.decompress(data, most)
            meter.unpacked += len(unpacked)
            return unpacked

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    class Socket(_Socket):
        def recv(self, *arguments: Any) -> bytes:
            data = super().recv(*arguments)
            meter.read += len(data)
            return data

        def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
            size = super().recv_into(buffer, nbytes, flags)
            meter.read += size
            return size

        def send(self, *arguments: Any) -> int:
            size = super().send(*arguments)
            meter.written += size
            return size

    _decompressobj = zlib.decompressobj
    zlib.decompressobj = Unpacker  # pyright: ignore[reportAttributeAccessIssue]
    socket.socket = Socket
    selectors.DefaultSelector = Selector  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules["uvloop"] = None  # pyright: ignore[reportArgumentType]  # it cannot be imported
    at = arguments.index("-m")
    sys.argv = arguments[at + 1 :]
    runpy.run_module(arguments[at + 1], run_name="__main__", alter_sys=True)


_Socket = socket.socket

if __name__ == "__main__":
    sys.path[0] = ""  # as `python -m` has it
    _run(sys.argv[1], sys.argv[2:])
