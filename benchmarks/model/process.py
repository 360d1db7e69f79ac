"""Starts the model's process, and finds out how fast it is by itself."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.model.script import Dialect

REPOSITORY = Path(__file__).resolve().parents[2]


class Model:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.model.server"], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the scripted model did not start")
        self.port = int(line)

    def url(self, dialect: Dialect) -> str:
        return f"http://127.0.0.1:{self.port}/{dialect}/v1"

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def received(self) -> tuple[int, int]:
        """The requests so far, and the bytes of their bodies."""
        with socket.create_connection(("127.0.0.1", self.port), 10) as sock:
            sock.sendall(b"GET /received HTTP/1.1\r\nHost: model\r\n\r\n")
            answer = b""
            while not answer.rpartition(b"\r\n\r\n")[2]:
                answer += sock.recv(4096)
        requests, received = map(int, answer.rpartition(b"\r\n\r\n")[2].split())
        return requests, received

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Ceiling(NamedTuple):
    """What the model can do when nothing but a bare socket asks it."""

    answers_per_second: float
    streamed_per_second: float  # deltas, each written by itself
    burst_per_second: float  # deltas in one piece


def measure_ceiling(model: Model, deltas: int = 20_000) -> Ceiling:
    with socket.create_connection(("127.0.0.1", model.port), timeout=30) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ask(sock, "say")
        started = time.perf_counter()
        for _ in range(500):
            _ask(sock, "say")
        answers = 500 / (time.perf_counter() - started)
        return Ceiling(answers, _rate(sock, "stream", deltas), _rate(sock, "burst", deltas))


def _rate(sock: socket.socket, kind: str, deltas: int) -> float:
    directive = f"{kind}:{deltas}:4"
    _ask(sock, directive)  # encodes it
    started = time.perf_counter()
    _ask(sock, directive)
    return deltas / (time.perf_counter() - started)


def _ask(sock: socket.socket, directive: str) -> None:
    body = b'{"input":"bench:' + directive.encode() + b';"' + b" " * 10_000 + b"}"
    sock.sendall(b"POST /seed/v1/responses HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    tail = b""
    while b"response.completed" not in tail or not tail.endswith((b"\n\n", b"0\r\n\r\n")):
        data = sock.recv(1 << 20)
        if not data:
            raise RuntimeError("the scripted model closed the connection")
        tail = (tail + data)[-600:]
