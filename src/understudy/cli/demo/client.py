"""A small MCP client: starts the server, asks one thing at a time, and passes on all that comes meanwhile."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from understudy import __version__
from understudy.errors import AgentError

PROTOCOL = "2025-11-25"
LONGEST_RUN = 120.0  # seconds: longer than any demo, so that a server that hangs is ended

Direction = Literal["sent", "received"]
OnNotification = Callable[[str, Mapping[str, Any]], None]
OnRequest = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]  # the method and its params to the result
OnLine = Callable[[Direction, str], None]


class ServerFailed(AgentError):
    kind = "server_failed"


class McpClient:
    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        on_notification: OnNotification,
        on_request: OnRequest,
        on_line: OnLine | None = None,
    ) -> None:
        self._on_notification = on_notification
        self._on_request = on_request
        self._on_line = on_line
        self._next_id = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the client)
        self._process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )
        self._watchdog = threading.Timer(LONGEST_RUN, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> "McpClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._watchdog.cancel()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()  # the end of input ends the server
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            self._process.stdout.close()
            self._stderr.close()

    def initialize(self) -> dict[str, Any]:
        info = {"name": "understudy-demo", "version": __version__}
        params: dict[str, Any] = {"protocolVersion": PROTOCOL, "capabilities": {"elicitation": {}}, "clientInfo": info}
        result = self.request("initialize", params)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.request("tools/call", {"name": name, "arguments": dict(arguments)})

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Its result. Raises `ServerFailed` for an error, or when the server is gone."""
        self._next_id += 1
        number = self._next_id
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._take(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise ServerFailed(f"{method}: {message['error'].get('message')}")
                return message["result"]

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            self._on_notification(message["method"], message.get("params", {}))
            return
        result = self._on_request(message["method"], message.get("params", {}))
        self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message)
        if self._on_line:
            self._on_line("sent", line)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        if self._on_line:
            self._on_line("received", line.decode().rstrip("\n"))
        return json.loads(line)

    def _gone(self) -> ServerFailed:
        code = self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip()
        return ServerFailed(f"the server ended with exit code {code}" + (f":\n{said}" if said else ""))
