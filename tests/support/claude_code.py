"""The released Claude Code with a model that plays a script on loopback: no key, and no way to any other address."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import platform
import pty
import re
import secrets
import struct
import sys
import termios
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.support.environments import node_with
from understudy.testing.waiting import WAIT_SECONDS

Json = dict[str, Any]
RELEASE = "2.1.327"
KEY = "sk-ant-fake"
SIZE = (40, 120)  # rows and columns
TERMINAL = (("\x1b[c", "\x1b[?62;c"), ("\x1b[>0q", "\x1bP>|xterm(390)\x1b\\"))  # what it asks of a terminal before it begins
ENTER, ESCAPE, DOWN, RIGHT = "\r", "\x1b", "\x1b[B", "\x1b[C"
TOOLS = ("mcp__codex__codex", "mcp__codex__codex-reply")


def program() -> Path:
    """Skips the test where it cannot be had."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the binary of Claude Code that is pinned here is for Linux on x86-64")
    return node_with(f"@anthropic-ai/claude-code-linux-x64@{RELEASE}") / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"


def use(tool: str, **arguments: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{secrets.token_hex(4)}", "name": tool, "input": arguments}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


class MessagesModel:
    """Answers each request that offers tools by the next block of its script, and keeps those requests. Functions make theirs."""

    def __init__(self, script: Sequence[Json | Callable[[Json], Json]]) -> None:
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
                entry = self._script.pop(0) if self._script else block
                block = entry(request) if callable(entry) else entry
                self.requests.append(request)
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
    flags = ["--mcp-config", str(home / "mcp.json"), "--strict-mcp-config", "--allowedTools", *TOOLS]
    return [str(program()), *arguments, *flags], environment


@asynccontextmanager
async def in_terminal(argv: list[str], environment: dict[str, str], folder: Path) -> AsyncGenerator[Terminal]:
    ours, its = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    os.set_blocking(ours, False)
    alone = ["setsid", "--ctty", *argv]  # with this as its terminal
    process = await asyncio.create_subprocess_exec(*alone, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its)
    os.close(its)
    terminal = Terminal(ours)
    try:
        yield terminal
    finally:
        terminal.close()
        process.kill()
        await process.wait()


class Terminal:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._screen = pyte.Screen(SIZE[1], SIZE[0])
        self._stream = pyte.Stream(self._screen)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            piece = os.read(self._descriptor, 65536).decode(errors="replace")
        except OSError:  # it has ended
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        self._stream.feed(piece)
        for question, answer in TERMINAL:
            if question in piece:
                os.write(self._descriptor, answer.encode())

    @property
    def screen(self) -> pyte.Screen:
        return self._screen

    @property
    def shown(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def shows(self, words: str) -> bool:
        return words in re.sub(r"[ \xa0]+", " ", self.shown)

    async def until(self, happened: Callable[[], object]) -> None:
        end = time.monotonic() + 4 * WAIT_SECONDS
        while not happened():
            assert time.monotonic() < end, f"it did not happen; what is shown:\n{self.shown}"
            await asyncio.sleep(0.05)

    async def until_shown(self, words: str) -> None:
        await self.until(lambda: self.shows(words))

    async def press(self, key: str, words: str) -> None:
        """A key, and what is shown after it."""
        os.write(self._descriptor, key.encode())
        await self.until_shown(words)

    def leave(self, key: str) -> None:
        """A key after which nothing need be shown."""
        os.write(self._descriptor, key.encode())

    async def enter(self, line: str) -> None:
        await self.press(line, f"❯ {line}")
        self.leave(ENTER)
