"""Runs a server that is a program: JSON-RPC messages as lines on its pipes. The sandbox's helper runs it, so that nothing of it
outlives us, however we end."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from understudy.protocol.choices import OutputStream
from understudy.sandbox.spec import Command, CommandResult
from understudy.tools.mcp.reading import MOST_JUNK, MOST_LINE, MOST_UNREAD, MOST_UNSENT, read_message

_STDERR_KEPT = 2048
_GRACE_SECONDS = 0.5  # to end by itself after its input was closed

Streams = tuple["_Messages", MemoryObjectSendStream[SessionMessage]]


class RunsPrograms(Protocol):
    async def run(self, command: Command, on_output: Callable[[OutputStream, bytes], None]) -> CommandResult: ...


class Program:
    """A server's process. Once it is gone, `why_ended` says why."""

    def __init__(self, sandbox: RunsPrograms, command: Command) -> None:
        self._sandbox = sandbox
        self._command = command
        self._line = bytearray()
        self._unread = 0
        self._junk = 0
        self._stderr = bytearray()
        self.flood: str | None = None
        self.result: CommandResult | None = None

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        """However this is left, the process has ended, and all that it started."""
        incoming, lines = anyio.create_memory_object_stream[bytes](math.inf)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](MOST_UNSENT)  # whoever sends more has to wait
        theirs, ours = os.pipe()
        os.set_blocking(ours, False)
        self._incoming = incoming
        command = Command(self._command.argv, self._command.cwd, self._command.env, None, self._command.containment, input=theirs)
        running = asyncio.create_task(self._run(command, incoming), name=f"server {command.argv[0]}")
        writing = asyncio.create_task(self._write(ours, outgoing))
        try:
            yield _Messages(lines, self._read), write
        finally:
            write.close()
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
            os.close(ours)  # the polite way to end it
            os.close(theirs)
            try:
                await asyncio.wait([running], timeout=_GRACE_SECONDS)
            finally:
                running.cancel()
                await asyncio.wait([running])
                for stream in (incoming, lines, outgoing):
                    stream.close()

    async def _run(self, command: Command, incoming: MemoryObjectSendStream[bytes]) -> None:
        try:
            self.result = await self._sandbox.run(command, self._hear)
        except _Flood as flood:
            self.flood = str(flood)
        finally:
            incoming.close()

    def _hear(self, stream: OutputStream, chunk: bytes) -> None:
        """Raises `_Flood`, which ends the process."""
        self._junk += len(chunk)
        if self._junk > MOST_JUNK:
            raise _Flood(f"it printed more than {MOST_JUNK >> 20} MiB that is no message")
        if stream == "stderr":
            self._stderr = (self._stderr + chunk)[-_STDERR_KEPT:]
            return
        self._line += chunk
        if b"\n" in chunk:
            *lines, rest = self._line.split(b"\n")
            self._line = bytearray(rest)
            for line in lines:
                self._take(line)
        if len(self._line) > MOST_LINE:
            raise _Flood(f"it sent a message of more than {MOST_LINE >> 20} MiB")

    def _take(self, line: bytearray) -> None:
        text = line.strip()
        if not text.startswith(b"{"):
            return  # text that the program printed to the wrong stream
        if len(text) > MOST_LINE:
            raise _Flood(f"it sent a message of more than {MOST_LINE >> 20} MiB")
        waiting = self._incoming.statistics().current_buffer_used
        self._unread = self._unread + len(text) if waiting else len(text)
        if self._unread > MOST_UNREAD:
            raise _Flood("it sends messages faster than they can be read")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._incoming.send_nowait(bytes(text))

    def _read(self, text: bytes) -> SessionMessage | None:
        message = read_message(text)
        if message is None:
            return None
        self._junk = 0
        return SessionMessage(message)

    async def _write(self, pipe: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for message in outgoing:
            data = memoryview(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            while data:
                try:
                    data = data[os.write(pipe, data) :]
                except BlockingIOError:
                    await _until_writable(pipe)
                except OSError:
                    return  # the process is gone, which the reading side reports

    def why_ended(self) -> str:
        """In the system's words if it could not start; otherwise its last output, if there was any."""
        said = bytes(self._stderr).decode("utf-8", "replace").strip()
        last = f": {said}" if said else ""
        if self.flood is not None:
            return f"it was ended because {self.flood}"
        result = self.result
        if result is None:
            return f"connection closed{last}"
        if result.spawn_error is not None or result.setup_error is not None:
            return result.spawn_error or result.setup_error or ""
        how = f"by signal {result.signal}" if result.signal is not None else f"with exit code {result.exit_code}"
        return f"connection closed: the program ended {how}{last}"


class _Messages:
    """Incoming messages, parsed only when asked for, so that a flood costs no more than what is handled."""

    def __init__(self, lines: MemoryObjectReceiveStream[bytes], read: Callable[[bytes], SessionMessage | None]) -> None:
        self._lines = lines
        self._read = read

    async def receive(self) -> SessionMessage:
        while (message := self._read(await self._lines.receive())) is None:
            pass
        return message

    def __aiter__(self) -> "_Messages":
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._lines.aclose()

    async def __aenter__(self) -> "_Messages":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Flood(Exception):
    """The server sends more than anybody could want."""


async def _until_writable(pipe: int) -> None:
    loop = asyncio.get_running_loop()
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(pipe, lambda: writable.done() or writable.set_result(None))
    try:
        await writable
    finally:
        loop.remove_writer(pipe)
