"""A client on the other end of a server's pipes: sends requests, notes when answers come. Every wait is bounded.

It reads in one thread and parses only what it must, so that it measures the server and not itself.
"""

import base64
import json
import os
import select
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from benchmarks.model import script
from benchmarks.model.process import Model
from benchmarks.servers import ServerSpec

READ_BYTES = 1 << 20
WAIT_SECONDS = 30.0
_METHOD = b'"method":'
_CONFIGURED = b"session_configured"

Lines = Callable[[list[bytes], int], None]  # whole lines, and when they were read (nanoseconds)


class BenchError(Exception):
    """A server did not do what the benchmark needs, with what it said last."""


class LostAnswer(BenchError):
    """A turn went without an answer."""


_DOT = base64.b64decode(  # one pixel
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Answer(NamedTuple):
    at: int  # nanoseconds, on the clock of `time.monotonic_ns`
    line: bytes

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.line)


class Client:
    def __init__(self, spec: ServerSpec, model: Model, folder: Path) -> None:
        self.spec = spec
        self.home, self.work = folder / "home", folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        _fill(self.work)
        spec.write_config(self.home, model)
        self.watch: Lines | None = None  # sees every line, where a row needs more than answers
        self.sessions: dict[int, str] = {}  # by the request that began them
        self._answers: dict[int, Answer] = {}
        self._tail = b""
        self._unsent = b""
        self._next = 1
        self.lines_read = 0
        self.bytes_read = 0
        self._last: deque[bytes] = deque(maxlen=4)
        self._stderr = (folder / "stderr").open("ab")
        self.spawned_at = time.monotonic_ns()
        self._process = subprocess.Popen(
            spec.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, cwd=self.work, env=self._environment()
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower() and not name.startswith("PYTHON")}
        return {**kept, "CODEX_HOME": str(self.home), "HOME": str(self.home), **self.spec.env}

    @property
    def pid(self) -> int:
        return self._process.pid

    # -- talking

    def initialize(self) -> Answer:
        client = {"name": "benchmark", "version": "0"}
        request = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        answer = self.wait(request)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def request(self, method: str, params: dict[str, Any]) -> int:
        number = self._next
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def call(self, tool: str, **arguments: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def open(self, directive: str) -> int:
        return self.call("codex", prompt=f"bench:{directive};")

    def reply(self, session: str, directive: str) -> int:
        return self.call("codex-reply", **{self.spec.session_key: session, "prompt": f"bench:{directive};"})

    def cancel(self, request: int) -> None:
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})

    def wait(self, request: int, seconds: float = WAIT_SECONDS) -> Answer:
        if not self.pump(lambda: request in self._answers, seconds):
            raise LostAnswer(str(self._failure(f"no answer to request {request} within {seconds:g} s")))
        return self._answers.pop(request)

    def answered(self) -> dict[int, Answer]:
        """The answers nobody has waited for yet; they are yours now."""
        answers, self._answers = self._answers, {}
        return answers

    def has_answer(self, request: int) -> bool:
        return request in self._answers

    def has_answers(self) -> bool:
        return bool(self._answers)

    def session_of(self, request: int, answer: Answer) -> str:
        """The session that a `codex` call began: told in the result, or only in an event (the seed's time)."""
        content: Any = answer.message.get("result", {}).get("structuredContent")
        found: Any = content.get("threadId") if content else self.sessions.get(request)
        if not isinstance(found, str):
            raise self._failure(f"no session id for request {request}")
        return found

    def turn(self, request: int, seconds: float = WAIT_SECONDS, expect: bytes = b"done") -> Answer:
        """The answer to a turn that must have gone well."""
        answer = self.wait(request, seconds)
        result = answer.message.get("result", {})
        if result.get("isError") or "error" in result or expect not in answer.line:
            raise self._failure(f"request {request} failed: {answer.line[:400].decode(errors='replace')}")
        return answer

    def begin_session(self) -> str:
        request = self.open("say")
        return self.session_of(request, self.turn(request))

    # -- bytes

    def pump(self, until: Callable[[], bool], seconds: float) -> bool:
        """Read and write until it holds. False when it does not within `seconds`; raises when the server has ended."""
        return pump((self,), until, seconds)

    def wait_for(self, poller: select.poll, owners: dict[int, "Client"]) -> None:
        """Take part in a common wait."""
        owners[self._out] = owners[self._in] = self
        poller.register(self._out, select.POLLIN)
        if self._unsent:
            poller.register(self._in, select.POLLOUT)

    def ready(self, fd: int, poller: select.poll) -> None:
        if fd == self._out:
            self._read()
            if self._unsent:
                poller.register(self._in, select.POLLOUT)
        elif self._flush():
            poller.unregister(fd)

    def _send(self, message: dict[str, Any]) -> None:
        self._unsent += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self._flush()

    def _flush(self) -> bool:
        try:
            self._unsent = self._unsent[os.write(self._in, self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise self._failure("the server has closed its input") from None
        return not self._unsent

    def _read(self) -> None:
        try:
            data = os.read(self._out, READ_BYTES)
        except BlockingIOError:
            return
        at = time.monotonic_ns()
        if not data:
            raise self._failure("the server has ended")
        self.bytes_read += len(data)
        lines = data.split(b"\n")
        lines[0] = self._tail + lines[0]
        self._tail = lines.pop()
        if not lines:
            return
        self.lines_read += len(lines)
        self._last.append(lines[-1])
        for line in lines:
            if _METHOD not in line[:64]:
                self._note_answer(line, at)
            elif _CONFIGURED in line[:300]:
                self._note_session(line)
        if self.watch is not None:
            self.watch(lines, at)

    def _note_answer(self, line: bytes, at: int) -> None:
        if line.startswith(b'{"jsonrpc":"2.0","id":'):
            text = line[22:40].partition(b",")[0]
        elif line.startswith(b'{"id":'):
            text = line[6:24].partition(b",")[0]
        else:
            text = str(json.loads(line).get("id")).encode() if line.startswith(b"{") else b""  # `serve` says words
        if text.isdigit():
            self._answers[int(text)] = Answer(at, line)

    def _note_session(self, line: bytes) -> None:
        params = json.loads(line)["params"]
        message, meta = params.get("msg", {}), params.get("_meta", {})
        session = message.get("thread_id") or message.get("session_id")
        if session is not None and "requestId" in meta:
            self.sessions[meta["requestId"]] = session

    def _failure(self, what: str) -> BenchError:
        self._stderr.flush()
        said = Path(self._stderr.name).read_text(errors="replace").strip()[-600:]
        lines = "\n  ".join(line[:300].decode(errors="replace") for line in self._last)
        code = self._process.poll()
        state = "" if code is None else f" (exit code {code})"
        return BenchError(f"{self.spec.name}: {what}{state}\n  last lines:\n  {lines}\n  stderr: {said or 'nothing'}")

    # -- ending

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        self._process.stdout.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _fill(work: Path) -> None:
    """Something for tools to read."""
    (work / script.FILE).write_text("hay\nneedle\nhay\n")
    (work / script.EDITED).write_text("first\n")
    (work / script.IMAGE).write_bytes(_DOT)


def pump(clients: Sequence[Client], until: Callable[[], bool], seconds: float) -> bool:
    """Serve several clients at once until it holds. False when it does not within `seconds`."""
    poller = select.poll()
    owners: dict[int, Client] = {}
    for client in clients:
        client.wait_for(poller, owners)
    deadline = time.monotonic() + seconds
    while not until():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for fd, _ in poller.poll(left * 1000):
            owners[fd].ready(fd, poller)
    return True
