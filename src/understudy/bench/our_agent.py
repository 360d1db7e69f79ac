"""Our own agent in the comparison: `understudy mcp-server`, a new one for each task, called by the tool `codex`.

Starts the MCP server on stdio for one tool call, as any client would.
"""

import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from understudy import __version__
from understudy.bench.attempts import Attempt, end_group
from understudy.bench.runs_of_tests import find_test_run
from understudy.bench.tasks import Task
from understudy.errors import AgentError
from understudy.sandbox.starting import start_process

PROTOCOL = "2025-11-25"
LARGEST_LINE = 256 * 2**20
LEAVE_SECONDS = 5.0


class ServerGone(AgentError):
    kind = "server_gone"


class McpServerProcess:
    """Started on entry, ended on exit. Declares no capabilities, so it cannot be asked anything."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stderr: BinaryIO) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._stderr = stderr
        self._process: asyncio.subprocess.Process | None = None
        self._next_id = 0

    async def __aenter__(self) -> "McpServerProcess":
        self._process = await start_process(  # in a session of its own: Ctrl-C is for us, and we end the server ourselves
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
                process.stdin.close()  # the server then ends its commands, and itself
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


NAME = "understudy"
CANCEL_SECONDS = 10.0  # for the report of a turn that ran out of time
OUR_PROGRAM = (sys.executable, "-P", "-m", "understudy")  # -P: do not import a task's files from the current folder


class OurAgent:
    """`chosen` are the caller's `-c` flags, `fixed` those that keep the comparison fair; `cwd` is where the server is started."""

    name = NAME

    def __init__(
        self, model: str | None, chosen: Sequence[str], fixed: Sequence[str], *, cwd: Path, env: Mapping[str, str]
    ) -> None:
        self._model = model
        self._chosen = tuple(chosen)
        self._fixed = tuple(fixed)
        self._cwd = cwd
        self._env = env

    def describe(self) -> dict[str, Any]:
        settings = hashlib.sha256("\n".join(self._chosen).encode()).hexdigest()[:16]  # as a hash, because flags may contain keys
        return {"version": __version__, "model": self._model, "settings": settings}

    async def attempt(self, task: Task, work: Path, aside: Path) -> Attempt:
        arguments: dict[str, Any] = {"prompt": task.prompt, "cwd": str(work), "report": "full"} | (
            {"model": self._model} if self._model else {}
        )
        command = [*OUR_PROGRAM, "mcp-server", *(word for flag in (*self._chosen, *self._fixed) for word in ("-c", flag))]
        began = time.monotonic()
        with (aside / "stderr.log").open("wb") as stderr:
            try:
                async with McpServerProcess(command, cwd=self._cwd, env=self._env, stderr=stderr) as server:
                    return await self._call(server, arguments, task.seconds, began)
            except ServerGone as error:
                said = (aside / "stderr.log").read_text(errors="replace").strip()[-500:]
                reason = f"{error}: {said}" if said else str(error)
                return Attempt(ending="failed", seconds=time.monotonic() - began, reason=reason)

    async def _call(self, server: McpServerProcess, arguments: Mapping[str, Any], limit: float, began: float) -> Attempt:
        request = server.request("tools/call", {"name": "codex", "arguments": arguments})
        answered = asyncio.ensure_future(server.result(request))
        try:
            done, _ = await asyncio.wait([answered], timeout=max(0.0, limit - (time.monotonic() - began)))
            seconds = time.monotonic() - began
            if done:
                return _attempt(answered.result(), seconds)
            server.cancel(request)
            result: dict[str, Any] = {}
            with suppress(TimeoutError, ServerGone):
                result = await asyncio.wait_for(answered, CANCEL_SECONDS)
            return _attempt(result, seconds, timed_out=True)
        finally:
            answered.cancel()


def _attempt(result: Mapping[str, Any], seconds: float, *, timed_out: bool = False) -> Attempt:
    content: dict[str, Any] = result.get("structuredContent") or {}
    report: dict[str, Any] = content.get("report") or {}
    answer = str(content.get("content") or "")
    failed = bool(result.get("isError"))
    return Attempt(
        ending="timeout" if timed_out else "failed" if failed else "completed",
        seconds=seconds,
        reason=_failure(result) if failed and not timed_out else None,
        tokens=report.get("tokens"),
        usage=report.get("usage"),
        cost_usd=report.get("cost_usd"),
        answer=answer[:2000],
        tests_passed=_tests_passed(report),
    )


def _tests_passed(report: Mapping[str, Any]) -> bool | None:
    """Of the last command that is a test run and whose exit code is the run's own."""
    for command in reversed(report.get("commands", ())):
        run = find_test_run(tuple(command["command"]))
        if run is not None and run.decides and command["exit_code"] is not None:
            return command["exit_code"] == 0
    return None


def _failure(result: Mapping[str, Any]) -> str:
    texts = [str(part.get("text", "")) for part in result.get("content", ())]
    return (texts[0] if texts else json.dumps(result))[:1000]
