"""The servers that are compared over HTTP, each a process of its own: ours, the official Python SDK's, and fastmcp's.

`python benchmarks/http_peers.py sdk|fastmcp PORT` is the program of a peer: a tool that answers at once, one that reports progress.
"""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import BenchError
from benchmarks.model.process import REPOSITORY
from benchmarks.processes import PAGE

START_SECONDS = 60.0
REQUIREMENTS = {"fastmcp": ("fastmcp==4.1.2", "uvicorn", "httptools", "uvloop")}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@dataclass
class Peer:
    """A server that runs."""

    name: str
    port: int
    token: str
    process: "subprocess.Popen[bytes]"
    small_call: dict[str, object]  # params of a `tools/call` that is answered at once

    def resident(self) -> int:
        """Bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_ours(folder: Path, model_url: str) -> Peer:
    home = folder / "home"
    (home / "understudy").mkdir(parents=True)
    token = "us_" + "b" * 40
    (home / "understudy" / "token").write_text(token)
    os.chmod(home / "understudy" / "token", 0o600)
    provider = f'[model_providers.bench]\nname = "bench"\nbase_url = "{model_url}"\nwire_api = "chat"\n'
    settings = 'model = "bench"\nmodel_provider = "bench"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
    (home / "config.toml").write_text(settings + provider)
    port = free_port()
    env = {**os.environ, "CODEX_HOME": str(home), "HOME": str(folder)}
    command = [sys.executable, "-m", "understudy", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peer = Peer("understudy", port, token, process, {"name": "conversationsList", "arguments": {"limit": 1}})
    return _ready(peer)


def start_peer(kind: str, python: str) -> Peer:
    port = free_port()
    command = [python, str(REPOSITORY / "benchmarks" / "http_peers.py"), kind, str(port)]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _ready(Peer(kind, port, "none", process, {"name": "echo", "arguments": {"text": "hi"}}))


def _ready(peer: Peer) -> Peer:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and peer.process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", peer.port), 1):
                return peer
        except OSError:
            time.sleep(0.05)
    peer.close()
    raise BenchError(f"{peer.name} did not start")


def _serve_peer(kind: str, port: int) -> None:
    import importlib
    from typing import Any

    uvicorn: Any = importlib.import_module("uvicorn")
    if kind == "sdk":
        module: Any = importlib.import_module("mcp.server.mcpserver")
        server: Any = module.MCPServer("bench")
    else:
        module = importlib.import_module("fastmcp")
        server = module.FastMCP("bench")
    context: Any = module.Context

    def echo(text: str) -> str:
        return text

    async def stream(count: int, ctx: Any) -> str:
        for number in range(count):
            await ctx.report_progress(number, count, "xxxx")
        return "done"

    stream.__annotations__["ctx"] = context
    server.tool()(echo)
    server.tool()(stream)
    app = server.streamable_http_app() if kind == "sdk" else server.http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


if __name__ == "__main__":
    _serve_peer(sys.argv[1], int(sys.argv[2]))
