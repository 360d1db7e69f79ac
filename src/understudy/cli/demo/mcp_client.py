"""A small MCP client: starts a server and talks to it. Messages from several servers are read from one queue, in order."""

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from understudy import __version__
from understudy.errors import AgentError

PROTOCOL = "2025-11-25"
LONGEST_WAIT = 60.0  # seconds: a server that is silent for so long hangs

Direction = Literal["sent", "received"]
OnMessage = Callable[["McpClient", Direction, dict[str, Any]], None]


class ServerFailed(AgentError):
    kind = "server_failed"


@dataclass(frozen=True, slots=True)
class Came:
    client: "McpClient"
    message: dict[str, Any] | None  # None: the server has ended


class Arrivals:
    """Messages from every client, one at a time."""

    def __init__(self, on_message: OnMessage) -> None:
        self.on_message = on_message
        self._inbox: queue.Queue[Came] = queue.Queue()

    def put(self, came: Came) -> None:
        self._inbox.put(came)

    def next(self) -> tuple["McpClient", dict[str, Any]]:
        """Raises `ServerFailed` if a server has ended unasked, or is silent for too long."""
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            try:
                came = self._inbox.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise ServerFailed(f"the server said nothing for {LONGEST_WAIT:.0f} seconds") from None
            if came.client.ended:
                continue  # written before we ended it
            if came.message is None:
                raise came.client.gone()
            self.on_message(came.client, "received", came.message)
            return came.client, came.message


class McpClient:
    def __init__(
        self, name: str, exchange: Arrivals, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], can_be_asked: bool
    ) -> None:
        self.name = name
        self.ended = False
        self._exchange = exchange
        self._can_be_asked = can_be_asked
        self._next_id = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the client)
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C is for the demo, which ends the server itself
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def initialize_params(self) -> dict[str, Any]:
        info = {"name": f"understudy-demo-{self.name}", "version": __version__}
        capabilities: dict[str, Any] = {"elicitation": {}} if self._can_be_asked else {}
        return {"protocolVersion": PROTOCOL, "capabilities": capabilities, "clientInfo": info}

    def ask(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request; returns its id."""
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": dict(params)})
        return self._next_id

    def notify(self, method: str) -> None:
        self._send({"jsonrpc": "2.0", "method": method})

    def answer(self, request: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "id": request["id"], "result": dict(result)})

    def kill(self) -> None:
        """Like `kill -9`."""
        self.ended = True
        self._process.kill()
        self._clear()

    def close(self) -> None:
        """The end of input ends the server."""
        if self.ended:
            return
        self.ended = True
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
        self._clear()

    def gone(self) -> ServerFailed:
        code = self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()
        return ServerFailed(f"the server ended with exit code {code}" + (f":\n{said}" if said else ""))

    def _clear(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.wait()
        self._reader.join(5)
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            try:
                file.close()
            except OSError:
                continue  # the server has gone, so this cannot be delivered

    def _send(self, message: dict[str, Any]) -> None:
        self._exchange.on_message(self, "sent", message)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self.gone() from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._exchange.put(Came(self, json.loads(line)))
        self._exchange.put(Came(self, None))
