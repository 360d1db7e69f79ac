"""A model provider for tests: real HTTP on loopback, the wires of OpenAI and Anthropic, answers from a script in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, assert_never

from understudy.testing.script import Answer, Entry, Hold, Refusal, Script, Silence, Step, Wire
from understudy.testing.spelling import spell
from understudy.testing.waiting import Watched

Outcome = Literal["answering", "answered", "dropped"]


@dataclass
class ReceivedRequest:
    """A request to the model, and the progress of its answer."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Any  # decoded JSON
    outcome: Outcome = "answering"  # "dropped": the client left before the end of the answer


class _Unreadable(Exception):
    """It is not an HTTP request with a JSON body."""


class _Gone(Exception):
    """The client closed its connection before the end of the answer."""


class ScriptedModel:
    """Serves `script`; leaving the block fails if the model was asked more or less often than the script has answers.

    Instead of a script, a function may answer each request; it is called as often as the model is asked. `url` is for a provider's
    `base_url`. `requests` contains the decoded bodies received so far, `received` also their headers. All wires are served at the
    same time: a request's path tells its wire.
    """

    def __init__(
        self,
        script: Script | Callable[[ReceivedRequest], Entry],
        *,
        wait_seconds: float | None = None,
        watched: Watched | None = None,
    ) -> None:
        self._answer_to = script if callable(script) else None
        self._script = [] if callable(script) else list(script)
        self._next = 0
        self._unexpected: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._released = asyncio.Event()
        self._watched = watched or Watched(wait_seconds)
        self._server: asyncio.Server | None = None
        self.received: list[ReceivedRequest] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def requests(self) -> list[Any]:
        return [request.body for request in self.received]

    async def __aenter__(self) -> ScriptedModel:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve without checking how much of the script is used: for a test that compares `received` itself."""
        await self.__aenter__()
        try:
            yield
        finally:
            await self.kill()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.kill()
        if kind is not None:
            return  # the test has failed already, so the rest of the script does not matter
        if self._unexpected:
            raise AssertionError(f"the model was asked more often than its script has answers: {self._unexpected}")
        if left := self._script[self._next :]:
            found = f"{len(left)} of {len(self._script)} answers of the model were never asked for, beginning with {left[0]}"
            raise AssertionError(found)

    async def kill(self) -> None:
        """Close the port and break every connection, in mid-stream if one is streaming."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
            await asyncio.sleep(0)  # the transports close in the next round of the loop

    def release(self) -> None:
        """Let every stream that waits at `HOLD` continue, now and later."""
        self._released.set()

    async def next_request(self, count: int) -> ReceivedRequest:
        """The `count`-th request (from 1), when it has come."""
        await self._watched.until(lambda: len(self.received) >= count or None, f"request {count} to the model")
        return self.received[count - 1]

    async def outcome(self, count: int) -> Outcome:
        """How the answer to the `count`-th request (from 1) ended: complete, or because the client left."""
        request = await self.next_request(count)
        await self._watched.until(lambda: request.outcome != "answering" or None, f"the end of answer {count} of the model")
        return request.outcome

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async for request in _read_requests(reader):
                self.received.append(request)
                self._watched.change()
                await self._answer(request, reader, writer)
                if request.headers.get("connection", "").lower() == "close":
                    break
        except _Unreadable as error:
            await _Line(reader, writer).refuse(Refusal(400, str(error)))
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError, _Gone):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended: Outcome = "dropped"
        try:
            await self._play(self._take(request), request, _Line(reader, writer))
            ended = "answered"
        finally:
            request.outcome = ended
            self._watched.change()

    def _take(self, request: ReceivedRequest) -> Entry:
        if self._answer_to is not None:
            return self._answer_to(request)
        if self._next < len(self._script):
            self._next += 1
            return self._script[self._next - 1]
        self._unexpected.append(request.path)
        return Refusal(400, "the script of this model has no more answers")

    async def _play(self, entry: Entry, request: ReceivedRequest, line: _Line) -> None:
        match entry:
            case Answer():
                wire = _wire_of(request.path)
                done = wire == "chat" and entry.ending == "whole"
                await self._stream(spell(entry, wire), line, done=done, whole=entry.ending != "dropped")
            case Refusal():
                await line.refuse(entry)
            case Silence():
                await line.wait(entry.seconds)
                await line.refuse(Refusal(500, "silence is over"))
            case dict():
                await self._play_recorded(entry, line)
            case _:
                assert_never(entry)

    async def _play_recorded(self, entry: dict[str, Any], line: _Line) -> None:
        if "hang" in entry:
            await line.wait(entry["hang"])
        if "status" in entry:
            await line.refuse(Refusal(entry["status"], entry.get("body", ""), entry.get("headers", {})))
        else:
            await self._stream(entry["events"], line, done=entry.get("done", False), whole=True)

    async def _stream(self, steps: Iterable[Step], line: _Line, *, done: bool, whole: bool) -> None:
        line.begin_stream()
        for step in steps:
            match step:
                case Hold():
                    await line.flush()
                    await line.wait_for(self._released)
                case dict():
                    line.event(json.dumps(step), named=step.get("type"))
                case str():
                    line.event(step)
                case _:
                    await line.flush()
                    await line.wait(step)
        if done:
            line.event("[DONE]")
        await line.flush()
        if not whole:
            raise _Gone
        await line.end_stream()


class _Line:
    """A connection to which an answer is being written."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def refuse(self, refusal: Refusal) -> None:
        body = refusal.body.encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
        self._head(refusal.status, headers)
        self._writer.write(body)
        await self._writer.drain()

    def begin_stream(self) -> None:
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})

    def event(self, data: str, *, named: str | None = None) -> None:
        """Anthropic's own client uses the event's name; others use its data."""
        text = (f"event: {named}\n" if named else "").encode() + f"data: {data}\n\n".encode()
        self._writer.write(b"%x\r\n%b\r\n" % (len(text), text))

    async def flush(self) -> None:
        await self._writer.drain()

    async def end_stream(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def wait(self, seconds: float | None) -> None:
        """Raises `_Gone` if the client leaves meanwhile: it sends nothing while it waits, so a read notices that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
                raise _Gone

    async def wait_for(self, event: asyncio.Event) -> None:
        released = asyncio.ensure_future(event.wait())
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait([released, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (released, gone):
                task.cancel()
            await asyncio.gather(released, gone, return_exceptions=True)
        if not event.is_set():
            raise _Gone

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        known = {int(code): code.phrase for code in HTTPStatus}
        lines = [f"HTTP/1.1 {status} {known.get(status, 'Unknown')}", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())


def _wire_of(path: str) -> Wire:
    match path.partition("?")[0].rstrip("/").rpartition("/")[2]:
        case "responses":
            return "responses"
        case "messages":
            return "anthropic"
        case _:
            return "chat"


async def _read_requests(reader: asyncio.StreamReader) -> AsyncIterator[ReceivedRequest]:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        first, *rest = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest if line)}
        try:
            body = await _read_body(reader, headers)
            yield ReceivedRequest(first.split(" ")[1], headers, json.loads(body) if body else None)
        except (ValueError, IndexError) as error:
            raise _Unreadable(f"not a request with a JSON body: {error}") from error


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return bytes(body)
