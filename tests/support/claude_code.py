"""The released Claude Code with a model that plays a script on loopback: no key, and no way to any other address."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import node_with
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
RELEASE = "2.1.327"
KEY = "sk-ant-fake"
TERMINAL = (("\x1b[c", "\x1b[?62;c"), ("\x1b[>0q", "\x1bP>|xterm(390)\x1b\\"))  # what it asks of a terminal before it begins


def program() -> Path:
    """Skips the test where it cannot be had."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the binary of Claude Code that is pinned here is for Linux on x86-64")
    return node_with(f"@anthropic-ai/claude-code-linux-x64@{RELEASE}") / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"


def use(tool: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": "toolu_1", "name": tool, "input": arguments}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


class MessagesModel:
    """Answers each request that offers tools by the next block of its script, and keeps those requests."""

    def __init__(self, script: Sequence[Json]) -> None:
        self.requests: list[Json] = []
        self._script = list(script)
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

            def do_GET(self) -> None:
                self._json({"data": []})

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
                if not request.get("stream"):
                    self._json({"input_tokens": 10} if "count_tokens" in self.path else _message([text("ok")], "end_turn"))
                    return
                lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in model.answer(request)]
                self._send("".join(lines).encode(), "text/event-stream")

            def _json(self, value: Json) -> None:
                self._send(json.dumps(value).encode(), "application/json")

            def _send(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> MessagesModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Json) -> Iterator[Json]:
        block = text("nothing more")
        if request.get("tools"):
            with self._lock:
                self.requests.append(request)
                block = self._script.pop(0) if self._script else block
        is_call = block["type"] == "tool_use"
        yield {"type": "message_start", "message": _message([], None)}
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {**block, **({"input": {}} if is_call else {"text": ""})},
        }
        piece = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])} if is_call else None
        yield {"type": "content_block_delta", "index": 0, "delta": piece or {"type": "text_delta", "text": block["text"]}}
        yield {"type": "content_block_stop", "index": 0}
        stop = {"stop_reason": "tool_use" if is_call else "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
        yield {"type": "message_stop"}


def _message(content: list[Json], stop: str | None) -> Json:
    usage = {"input_tokens": 5, "output_tokens": 1}
    named = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**named, "content": content, "stop_reason": stop, "usage": usage}


def command(folder: Path, model: MessagesModel, server: Json, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Its command line and its whole environment. `server`: the entry of the MCP server `codex`."""
    home = folder / "claude home"
    home.mkdir()
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"codex": server}}))
    trusted = {str(folder): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    known: Json = {"hasCompletedOnboarding": True, "theme": "dark", "projects": trusted}
    (home / ".claude.json").write_text(json.dumps(known | {"customApiKeyResponses": {"approved": [KEY], "rejected": []}}))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",  # where nobody listens: whatever would go further ends here
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    flags = ["--mcp-config", str(home / "mcp.json"), "--strict-mcp-config", "--allowedTools", "mcp__codex__codex"]
    return [str(program()), *arguments, *flags], environment


@contextmanager
def in_terminal(argv: list[str], environment: dict[str, str], folder: Path) -> Generator[Terminal]:
    pid, descriptor = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(argv[0], argv, environment)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    try:
        yield Terminal(descriptor)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)


class Terminal:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.shown = ""

    def until(self, happened: Any) -> None:
        """Until `happened()`; what it prints is read meanwhile."""
        end = time.monotonic() + 4 * WAIT_SECONDS
        while not happened():
            assert time.monotonic() < end, f"it did not happen; the end of what was shown: {self.shown[-2000:]!r}"
            if select.select([self._descriptor], [], [], 0.1)[0]:
                piece = os.read(self._descriptor, 65536).decode(errors="replace")
                self.shown += piece
                for question, answer in TERMINAL:
                    if question in piece:
                        os.write(self._descriptor, answer.encode())

    def enter(self, line: str) -> None:
        os.write(self._descriptor, line.encode())
        self.until(lambda: line.split()[-1] in self.shown)
        os.write(self._descriptor, b"\r")
