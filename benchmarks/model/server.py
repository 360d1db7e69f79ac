"""The model's process: HTTP on raw sockets and one epoll loop. `python -m benchmarks.model.server` prints its port.

One write per delta while streaming, so that a server meets each delta on its own; a burst is written as one piece.
It ends when its standard input does.
"""

import heapq
import select
import socket
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import islice

from benchmarks.model import script
from benchmarks.model.script import Dialect, Wire

STEPS_IN_A_ROW = 64  # deltas sent before other connections get a turn
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

Step = bytes | float  # something to send, or a moment (monotonic) to wait for
Steps = tuple[Step] | Generator[Step]


class Connection:
    def __init__(self, server: "ModelServer", sock: socket.socket) -> None:
        self._server = server
        self.sock = sock
        self._received = bytearray()
        self._unsent = memoryview(b"")
        self._steps: Iterator[Step] = iter(())
        self._closed = False

    def readable(self) -> None:
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._received += data
        while (request := self._take_request()) is not None:
            self._answer(*request)

    def _take_request(self) -> tuple[bytes, bytes] | None:
        """First line and body of a request that is complete."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._received[:end])
        length = _content_length(head)
        if len(self._received) < end + 4 + length:
            return None
        body = bytes(self._received[end + 4 : end + 4 + length])
        del self._received[: end + 4 + length]
        return head.partition(b"\r\n")[0], body

    def _answer(self, line: bytes, body: bytes) -> None:
        method, path, *_ = line.split(b" ")
        wire: Wire | None = "responses" if path.endswith(b"/responses") else "chat" if path.endswith(b"/chat/completions") else None
        if method == b"GET" and path == b"/received":
            told = f"{self._server.requests} {self._server.received}".encode()
            steps: Steps = (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(told), told),)
        elif method != b"POST" or wire is None:
            steps = (NOT_FOUND,)
        else:
            self._server.requests += 1
            self._server.received += len(body)
            dialect: Dialect = "modern" if path.startswith(b"/modern/") else "seed"
            steps = answer(wire, dialect, body)
        self._steps = iter(steps)
        self.advance()

    def advance(self) -> None:
        """Send as far as the socket takes it, or until a moment to wait for."""
        try:
            if self._flush():
                self._take_steps()
        except OSError:
            self.close()

    def _take_steps(self) -> None:
        send = self.sock.send
        taken = 0
        for step in islice(self._steps, STEPS_IN_A_ROW):
            taken += 1
            if not isinstance(step, bytes):
                self._server.wake_at(step, self)
                return
            try:
                sent = send(step)
            except BlockingIOError:
                sent = 0
            if sent < len(step):
                self._unsent = memoryview(step)[sent:]
                self._server.wait_until_writable(self)
                return
        if taken == STEPS_IN_A_ROW:
            self._server.go_on(self)

    def _flush(self) -> bool:
        while self._unsent:
            try:
                sent = self.sock.send(self._unsent)
            except BlockingIOError:
                self._server.wait_until_writable(self)
                return False
            self._unsent = self._unsent[sent:]
        return True

    def writable(self) -> None:
        self._server.stop_waiting(self)
        self.advance()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._steps = iter(())
            self._server.forget(self)
            self.sock.close()


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    start = lowered.find(b"\r\ncontent-length:")
    if start < 0:
        return 0
    return int(lowered[start + 17 :].partition(b"\r\n")[0])


def answer(wire: Wire, dialect: Dialect, body: bytes) -> Steps:
    words, after_tool = script.read_request(body)
    if after_tool:
        return (script.say(wire),)
    match words:
        case ("run", tool, which):
            return (script.run(wire, tool, which),)
        case ("use", tool, number):
            return (script.use(wire, tool, number),)
        case ("patch", number):
            return (script.patch(wire, dialect, number),)
        case ("burst", count, size):
            return (script.burst(wire, int(count), int(size)),)
        case ("stream", count, size):
            return _stream(script.stream(wire, int(count), int(size)))
        case ("paced", count, microseconds):
            return _paced(wire, int(count), int(microseconds) / 1e6)
        case ("hang",):
            return (script.CHUNKED + script.framed(script.opening(wire) + script.delta(wire, "wait")),)
        case ("words", size):
            return (script.say(wire, "x" * int(size)),)
        case _:
            return (script.say(wire),)


def _stream(parts: script.Stream) -> Generator[Step]:
    yield parts.head
    piece = parts.piece
    for _ in range(parts.times):
        yield piece
    yield parts.tail


def _paced(wire: Wire, count: int, seconds: float) -> Generator[Step]:
    """Each delta says when it was sent, by the clock that the client reads too."""
    yield script.CHUNKED + script.framed(script.opening(wire))
    said: list[str] = []
    due = time.monotonic()
    for _ in range(count):
        due += seconds
        yield due
        said.append(f"@{time.monotonic_ns()};")
        yield script.framed(script.delta(wire, said[-1]))
    yield script.framed(script.closing(wire, "".join(said))) + script.LAST_CHUNK


class ModelServer:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(0, select.EPOLLIN)  # ends with whoever started it
        self._connections: dict[int, Connection] = {}
        self._timers: list[tuple[float, int, Connection]] = []
        self._timer_count = 0
        self._ready: list[Connection] = []
        self.requests = 0
        self.received = 0  # bytes of their bodies

    def serve(self) -> None:
        while True:
            for fd, events in self._epoll.poll(self._patience()):
                if fd == 0:
                    return
                if fd == self._listener.fileno():
                    self._accept()
                    continue
                connection = self._connections.get(fd)
                if connection is None:
                    continue
                if events & ~select.EPOLLOUT:
                    connection.readable()
                elif events & select.EPOLLOUT:
                    connection.writable()
            ready, self._ready = self._ready, []
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                ready.append(heapq.heappop(self._timers)[2])
            for connection in ready:
                connection.advance()

    def _patience(self) -> float | None:
        if self._ready:
            return 0
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections[sock.fileno()] = Connection(self, sock)
                self._epoll.register(sock, select.EPOLLIN)

    def wake_at(self, moment: float, connection: Connection) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (moment, self._timer_count, connection))

    def go_on(self, connection: Connection) -> None:
        self._ready.append(connection)

    def wait_until_writable(self, connection: Connection) -> None:
        self._epoll.modify(connection.sock, select.EPOLLIN | select.EPOLLOUT)

    def stop_waiting(self, connection: Connection) -> None:
        self._epoll.modify(connection.sock, select.EPOLLIN)

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection.sock.fileno(), None)
        self._epoll.unregister(connection.sock)


def main() -> None:
    server = ModelServer()
    print(server.port, flush=True)
    with suppress(KeyboardInterrupt):
        server.serve()


if __name__ == "__main__":
    sys.exit(main())
