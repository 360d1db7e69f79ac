"""A client on raw sockets: it costs little, so that what is measured is the server."""

import json
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.client import BenchError
from benchmarks.http_peers import Peer

Json = dict[str, Any]
WAIT_SECONDS = 60.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"


def message(method: str, params: Json | None = None, request_id: int | None = 1) -> bytes:
    said: Json = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(said if request_id is None else {**said, "id": request_id}).encode()


def head(peer: Peer, method: str, body: bytes, *more: str) -> bytes:
    lines = [
        f"{method} /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{peer.port}",
        f"Authorization: Bearer {peer.token}",
        "Accept: application/json, text/event-stream",
        *(("Content-Type: application/json", f"Content-Length: {len(body)}") if method == "POST" else ()),
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def modern_call(peer: Peer) -> bytes:
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientCapabilities": {},
        f"{META}clientInfo": {"name": "bench", "version": "1"},
    }
    body = message("tools/call", {**peer.small_call, "_meta": meta})
    return head(
        peer, "POST", body, f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", f"Mcp-Name: {peer.small_call['name']}"
    )


class Wire:
    """One connection."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.socket = socket.create_connection(("127.0.0.1", peer.port), WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest: bytes = b""

    def answer(self) -> tuple[bytes, bytes]:
        """Head and body of one answer, however it is framed."""
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self.more()
        top, _, rest = data.partition(b"\r\n\r\n")
        low = top.lower()
        if (at := low.find(b"content-length:")) >= 0:
            length = int(low[at + 15 :].split(b"\r\n", 1)[0])
            while len(rest) < length:
                rest += self.more()
            self.rest = rest[length:]
            return top, rest[:length]
        if b"transfer-encoding: chunked" not in low:
            self.rest = rest
            return top, b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest += self.more()
        self.rest = b""
        return top, rest

    def head_only(self) -> bytes:
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self.more()
        top, _, self.rest = data.partition(b"\r\n\r\n")
        return top

    def more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise BenchError(f"{self.peer.name} closed a connection")
        return data

    def close(self) -> None:
        self.socket.close()


def begin_session(wire: Wire) -> str:
    info = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    wire.socket.sendall(head(wire.peer, "POST", message("initialize", info)))
    top, _ = wire.answer()
    session = next(line.partition(b":")[2].strip() for line in top.split(b"\r\n") if line.lower().startswith(b"mcp-session-id"))
    wire.socket.sendall(session_head(wire.peer, session.decode(), message("notifications/initialized", None, None)))
    wire.answer()
    return session.decode()


def session_head(peer: Peer, session: str, body: bytes, method: str = "POST") -> bytes:
    return head(peer, method, body, f"Mcp-Session-Id: {session}", f"MCP-Protocol-Version: {LEGACY}")


def calls_per_second(wires: Sequence[Wire], request: Sequence[bytes], seconds: float) -> float:
    """Each connection asks again as soon as it has its answer."""
    by_number = {wire.socket.fileno(): (wire, data) for wire, data in zip(wires, request, strict=True)}
    poll = select.epoll()
    for number, (wire, data) in by_number.items():
        poll.register(number, select.EPOLLIN)
        wire.socket.sendall(data)
    began = time.perf_counter()
    done = 0
    while (now := time.perf_counter()) - began < seconds:
        for number, _ in poll.poll(1):
            wire, data = by_number[number]
            wire.answer()
            done += 1
            wire.socket.sendall(data)
    for wire in wires:
        wire.answer()
    poll.close()
    return done / (now - began)


def open_stream(peer: Peer) -> tuple[Wire, str]:
    """A session with an open stream for what belongs to no call."""
    wire = Wire(peer)
    session = begin_session(wire)
    wire.socket.sendall(session_head(peer, session, b"", "GET"))
    top = wire.head_only()
    if b" 200 " not in top.split(b"\r\n", 1)[0]:
        raise BenchError(f"{peer.name} opened no stream: {top[:100]!r}")
    return wire, session


def read_until(wire: Wire, what: bytes, end: bytes) -> int:
    """How often something came before the end did."""
    seen, tail = 0, b""
    while True:
        data = tail + wire.more()
        seen += data.count(what) - tail.count(what)
        if end in data:
            return seen
        tail = data[-len(what) :]
