"""One tool call of an MCP server on stdio, started for it: as any client would make it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from understudy import __version__
from understudy.bench.processes import end_group
from understudy.errors import AgentError
from understudy.sandbox.starting import start_process

PROTOCOL = "2025-11-25"
LARGEST_LINE = 256 * 2**20
LEAVE_SECONDS = 5.0


class ServerGone(AgentError):
    kind = "server_gone"


class McpServerProcess:
    """Started on entry, ended on exit. It declares nothing, so nobody is asked anything."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stderr: BinaryIO) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._stderr = stderr
        self._process: asyncio.subprocess.Process | None = None
        self._next_id = 0

    async def __aenter__(self) -> "McpServerProcess":
        self._process = await start_process(  # in a session of its own: Ctrl-C is for us, who end the server ourselves
            *self._command,
            cwd=self._cwd,
            env=dict(self._env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            limit=LARGEST_LINE,
        )
        try:
            info = {"name": "understudy-bench-agent", "version": __version__}
            params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info}
            await self.result(self.request("initialize", params))
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            with suppress(OSError, TimeoutError):
                process.stdin.close()  # its own way to end: commands first, then itself
                await asyncio.wait_for(self._drain(process), LEAVE_SECONDS)
        finally:
            await end_group(process)

    async def _drain(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while await process.stdout.read(2**16):
            pass  # a server that cannot write does not end
        await process.wait()

    def request(self, method: str, params: Mapping[str, Any]) -> int:
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        return self._next_id

    def cancel(self, request: int) -> None:
        self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}})

    async def result(self, request: int) -> dict[str, Any]:
        """Raises `ServerGone` where the server ends without it, or refuses."""
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            line = await self._process.stdout.readline()
            if not line:
                raise ServerGone(f"the server ended with exit code {await self._process.wait()}")
            message = json.loads(line)
            if message.get("id") != request or "method" in message:
                continue
            if "error" in message:
                raise ServerGone(str(message["error"].get("message", "the server refused the request")))
            return dict(message["result"])

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
