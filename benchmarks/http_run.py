"""`python -m benchmarks.http_run`: our server over HTTP beside the official Python SDK's and fastmcp's, in one run, by raw sockets.

Small calls a second, deltas a second to one viewer and to 200, memory for each idle stream, and the time of a delta while 5,000
streams are open.
"""

import argparse
import re
import select
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.support.environments import python_with

from benchmarks.client import BenchError
from benchmarks.figures import quantile
from benchmarks.http_client import (
    Json,
    Wire,
    begin_session,
    calls_per_second,
    message,
    modern_call,
    open_stream,
    read_until,
    session_head,
)
from benchmarks.http_peers import REQUIREMENTS, Peer, start_ours, start_peer
from benchmarks.model.process import Model
from benchmarks.run import scratch_folder

CONNECTIONS = 16
ROUNDS = 3
SECONDS = 2.0
VIEWERS = 200
IDLE = 1000
STREAMS = 5000
DELTAS = 20_000
_STAMP = re.compile(rb"@(\d+);")


def small_calls(peer: Peer, kind: str, seconds: float) -> float:
    wires = [Wire(peer) for _ in range(CONNECTIONS)]
    try:
        if kind == "modern tools/call":
            return calls_per_second(wires, [modern_call(peer)] * len(wires), seconds)
        sessions = [begin_session(wire) for wire in wires]
        body = message("ping") if kind == "ping" else message("tools/call", dict(peer.small_call))
        return calls_per_second(wires, [session_head(peer, session, body) for session in sessions], seconds)
    finally:
        for wire in wires:
            wire.close()


def deltas_to_one(peer: Peer, count: int) -> float:
    """Of ours the text of a model; of the others as many progress notifications."""
    wire = Wire(peer)
    session = begin_session(wire)
    ours = peer.name == "understudy"
    arguments: Json = {"prompt": f"bench:stream:{count}:4;"} if ours else {"count": count}
    params: Json = {"name": "codex" if ours else "stream", "arguments": arguments, "_meta": {} if ours else {"progressToken": 1}}
    began = time.perf_counter()
    wire.socket.sendall(session_head(peer, session, message("tools/call", params, 77)))
    seen = read_until(wire, b"agent_message_delta" if ours else b"notifications/progress", b'"result":')
    seconds = time.perf_counter() - began
    wire.close()
    if not seen or (seen < count and not ours):  # ours joins those that a client has not taken yet
        raise BenchError(f"{peer.name} sent {seen} of {count} deltas")
    return count / seconds


def begin_conversation(peer: Peer) -> tuple[Wire, str, str]:
    wire = Wire(peer)
    session = begin_session(wire)
    wire.socket.sendall(session_head(peer, session, message("tools/call", {"name": "conversationCreate", "arguments": {}})))
    _, body = wire.answer()
    found = re.search(rb'"conversation_id":"([0-9a-f-]{36})"', body)
    if found is None:
        raise BenchError(f"no conversation: {body[:200]!r}")
    return wire, session, found[1].decode()


def watch(peer: Peer, conversation: str) -> Wire:
    stream, session = open_stream(peer)
    asking = Wire(peer)
    params: Json = {"name": "conversationStream", "arguments": {"conversation_id": conversation}}
    asking.socket.sendall(session_head(peer, session, message("tools/call", params)))
    asking.answer()
    asking.close()
    return stream


def say(wire: Wire, session: str, conversation: str, directive: str) -> None:
    content = [{"type": "text", "text": directive}]
    params: Json = {"name": "conversationSendMessage", "arguments": {"conversation_id": conversation, "content": content}}
    wire.socket.sendall(session_head(wire.peer, session, message("tools/call", params)))
    wire.answer()


def deltas_to_many(peer: Peer, viewers: int, count: int) -> float:
    """Delivered to all of them together, a second."""
    wire, session, conversation = begin_conversation(peer)
    watching = [watch(peer, conversation) for _ in range(viewers)]
    poll, left = select.epoll(), dict[int, Wire]()
    for each in watching:
        left[each.socket.fileno()] = each
        poll.register(each.socket.fileno(), select.EPOLLIN)
    began = time.perf_counter()
    say(wire, session, conversation, f"bench:stream:{count}:4;")
    tails: dict[int, bytes] = {}
    while left:
        for number, _ in poll.poll(60):
            data = tails.get(number, b"") + left[number].socket.recv(1 << 18)
            if b"task_complete" in data:
                poll.unregister(number)
                del left[number]
            tails[number] = data[-20:]
    seconds = time.perf_counter() - began
    for each in (*watching, wire):
        each.close()
    return viewers * count / seconds


def bytes_per_stream(peer: Peer, count: int) -> float:
    before = peer.resident()
    streams = [open_stream(peer)[0] for _ in range(count)]
    time.sleep(0.5)
    taken = (peer.resident() - before) / count
    for stream in streams:
        stream.close()
    return taken


def delta_times(peer: Peer, streams: int, count: int) -> list[float]:
    """Milliseconds from the model's write to the viewer's read, with so many other streams open."""
    idle = [open_stream(peer)[0] for _ in range(streams)]
    wire, session, conversation = begin_conversation(peer)
    stream = watch(peer, conversation)
    say(wire, session, conversation, f"bench:paced:{count}:2000;")
    taken: list[float] = []
    newest = 0
    data = b""
    while b"task_complete" not in data:
        data = data[-200:] + stream.socket.recv(1 << 16)
        now = time.monotonic_ns()
        for stamp in map(int, _STAMP.findall(data)):
            if stamp > newest:
                newest = stamp
                taken.append((now - stamp) / 1e6)
    for each in (*idle, wire, stream):
        each.close()
    return taken[5:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_run", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="do each thing so many times as often (0.1 for a quick look)")
    options = parser.parse_args()
    scale: float = options.scale
    fastmcp = str(python_with(*REQUIREMENTS["fastmcp"]))
    with Model() as model, scratch_folder() as folder:
        peers: list[Peer] = []
        try:
            for start in _starters(Path(tempfile.mkdtemp(dir=folder)), model, fastmcp):
                peers += [start()]
            _compare(peers, scale)
            ours = peers[0]
            print(f"deltas/s to {VIEWERS} viewers: {deltas_to_many(ours, VIEWERS, max(50, int(1000 * scale))):,.0f}")
            streams = int(STREAMS * scale)
            taken = delta_times(ours, streams, 500)
            middle, slow = quantile(taken, 0.5), quantile(taken, 0.95)
            print(f"{streams} open streams: a delta takes {middle:.2f} ms (median), {slow:.2f} ms (p95)")
        finally:
            for peer in peers:
                peer.close()
    return 0


def _starters(folder: Path, model: Model, fastmcp: str) -> list[Callable[[], Peer]]:
    return [
        lambda: start_ours(folder, model.url("seed")),
        lambda: start_peer("sdk", sys.executable),
        lambda: start_peer("fastmcp", fastmcp),
    ]


def _compare(peers: list[Peer], scale: float) -> None:
    for kind in ("ping", "tools/call", "modern tools/call"):
        rates = {peer.name: [small_calls(peer, kind, SECONDS * scale) for _ in range(ROUNDS)] for peer in peers}
        _tell(f"{kind}, calls/s", {name: median(values) for name, values in rates.items()}, "{:,.0f}")
    count = int(DELTAS * scale)
    _tell("deltas/s to one viewer", {peer.name: deltas_to_one(peer, count) for peer in peers}, "{:,.0f}")
    idle = int(IDLE * scale)
    _tell("KB for each idle stream", {peer.name: bytes_per_stream(peer, idle) / 1000 for peer in peers}, "{:.1f}")


def _tell(what: str, figures: dict[str, float], form: str) -> None:
    print(f"{what}: " + ", ".join(f"{name} {form.format(value)}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
