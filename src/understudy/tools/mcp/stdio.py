"""The way to a server that is a program: JSON-RPC messages as lines on its pipes. It runs through the sandbox's helper, so that
nothing of it outlives us, however we end."""

import asyncio
import json
import math
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from understudy.protocol.choices import OutputStream
from understudy.sandbox.spec import Command, CommandResult
from understudy.tools.host import RunsCommands
from understudy.tools.mcp.limits import MOST_JUNK, MOST_LINE, MOST_UNREAD, MOST_UNSENT

_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_DEEPEST = 100
_STDERR_KEPT = 2048
_GRACE_SECONDS = 0.5  # to end by itself once its input is closed

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Program:
    """A server's process. `why_ended` tells, once it is gone."""

    def __init__(self, sandbox: RunsCommands, command: Command) -> None:
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
        """However this is left, the process has ended and all that it started with it."""
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](MOST_UNSENT)  # who sends more waits
        theirs, ours = os.pipe()
        os.set_blocking(ours, False)
        self._incoming = incoming
        command = Command(self._command.argv, self._command.cwd, self._command.env, None, self._command.containment, input=theirs)
        running = asyncio.create_task(self._run(command, incoming), name=f"server {command.argv[0]}")
        writing = asyncio.create_task(self._write(ours, outgoing))
        try:
            yield read, write
        finally:
            write.close()
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
            os.close(ours)  # the polite way to say that it is over
            os.close(theirs)
            try:
                await asyncio.wait([running], timeout=_GRACE_SECONDS)
            finally:
                running.cancel()
                await asyncio.wait([running])
                for stream in (incoming, read, outgoing):
                    stream.close()

    async def _run(self, command: Command, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
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
            return  # what programs print where they should not
        if len(text) > MOST_LINE:
            raise _Flood(f"it sent a message of more than {MOST_LINE >> 20} MiB")
        message = _read_message(bytes(text))
        if message is None:
            return
        self._junk = 0
        waiting = self._incoming.statistics().current_buffer_used
        self._unread = self._unread + len(text) if waiting else len(text)
        if self._unread > MOST_UNREAD:
            raise _Flood("it sends messages faster than they can be read")
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._incoming.send_nowait(SessionMessage(message))

    async def _write(self, pipe: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for message in outgoing:
            data = memoryview(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            while data:
                try:
                    data = data[os.write(pipe, data) :]
                except BlockingIOError:
                    await _until_writable(pipe)
                except OSError:
                    return  # it is gone, which is told from the other end

    def why_ended(self) -> str:
        """In the words of the system where it could not begin; what it said last, where it said anything."""
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


def _read_message(text: bytes) -> JSONRPCMessage | None:
    """None for what is no message. An answer that cannot be read is a failure, or whoever asked would wait for nothing."""
    for mend in (bytes, _mended):
        try:
            return jsonrpc_message_adapter.validate_json(mend(text), by_name=False)
        except (ValueError, RecursionError):
            continue
    if (tools := _tools_in(text)) is not None:
        return tools
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    if answer.method is not None:
        return None
    return JSONRPCError(jsonrpc="2.0", id=answer.id, error=ErrorData(code=PARSE_ERROR, message="its answer cannot be read"))


def _mended(text: bytes) -> bytes:
    """Halves of characters, which names of files get into texts, as question marks. Raises ValueError, or RecursionError."""
    return json.dumps(json.loads(text.decode("utf-8", "replace")), ensure_ascii=False).encode("utf-8", "replace")


def _tools_in(text: bytes) -> JSONRPCResponse | None:
    """A list of tools of which one has a schema nested without end: it must not take the others with it."""
    if b'"tools"' not in text:
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(_without_depths(text), by_name=False)
    except ValueError:
        return None
    return message if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list) else None


def _without_depths(text: bytes) -> bytes:
    """JSON with `null` in place of what is nested more deeply than a parser goes. By its brackets alone, which takes no stack."""
    kept: list[bytes] = []
    depth = start = 0
    for found in _BRACKETS.finditer(text):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth == _DEEPEST:
                    kept += (text[start : found.start()], b"null")
            case b"}" | b"]":
                if depth == _DEEPEST:
                    start = found.end()
                depth -= 1
            case _:
                pass  # a text
    return b"".join((*kept, text[start:]))


class _Answer(msgspec.Struct):
    id: int | str
    method: Any = None


class _Flood(Exception):
    """More comes than anybody could want."""


async def _until_writable(pipe: int) -> None:
    loop = asyncio.get_running_loop()
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(pipe, lambda: writable.done() or writable.set_result(None))
    try:
        await writable
    finally:
        loop.remove_writer(pipe)
