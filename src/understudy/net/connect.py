"""Connects to a server: resolves its name, tries several addresses at once, then adds a proxy's tunnel and TLS if needed."""

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from understudy.net.addresses import UNIX, Url, proxy_authorization
from understudy.net.connection import Connection
from understudy.net.failures import Unreachable

STAGGER_SECONDS = 0.25  # head start of an address before the next one is tried, too
TUNNEL_HEAD_LIMIT = 16 * 1024
# A model may think for minutes, but a way that has died (the machine slept, a router forgot us) is noticed within two: by what is
# asked in silence, and by what is sent and not acknowledged. macOS has another name for the first, and nothing for the last.
_ASKED = tuple(
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPALIVE", 30),
        ("TCP_KEEPINTVL", 15),
        ("TCP_KEEPCNT", 6),
        ("TCP_USER_TIMEOUT", 120_000),
    )
    if hasattr(socket, name)
)

_OUT_OF_DATE = (9, 10)  # OpenSSL's numbers for certificates that are not valid yet, and not any more

if TYPE_CHECKING:
    from understudy.net.names import Address


async def open_connection(
    connection: Connection, url: Url, *, proxy: Url | None, tls: Callable[[], ssl.SSLContext], seconds: float
) -> None:
    """Connect `connection` to the server of `url`. Raises Unreachable, with nothing left open."""
    to = f"cannot connect to {url}" + (f" through the proxy {proxy.scheme}://{proxy.authority}" if proxy else "")
    first = proxy or url
    addresses: Sequence[Address] | None = () if url.scheme == UNIX else None
    try:
        async with asyncio.timeout(seconds):
            context = tls() if "https" in (first.scheme, url.scheme) else None
            if addresses is None:
                addresses = await _resolve(first.host)
            await _open(connection, url, proxy, context, addresses)
    except TimeoutError:
        if addresses is None:
            raise Unreachable(f"{to}: the name {first.host} was not resolved within {seconds:g} seconds", why="name") from None
        raise Unreachable(f"{to}: no connection within {seconds:g} seconds") from None
    except Unreachable as failure:
        raise Unreachable(f"{to}: {failure}", transient=failure.transient, why=failure.why) from None
    except socket.gaierror as error:
        raise Unreachable(f"{to}: the name {first.host} cannot be resolved ({error.strerror})", why="name") from None
    except OSError as error:
        raise _explained(to, error) from None


async def _open(
    connection: Connection, url: Url, proxy: Url | None, context: ssl.SSLContext | None, addresses: "Sequence[Address]"
) -> None:
    loop = asyncio.get_running_loop()
    if url.scheme == UNIX:
        await loop.create_unix_connection(lambda: connection, url.host)
        return
    first = proxy or url
    outer_tls = (context, first.host) if first.scheme == "https" else (None, None)
    tunnelled = proxy is not None and url.scheme == "https"
    tunnel = _Tunnel(url, proxy) if proxy is not None and tunnelled else None
    transport = await _connect(lambda: tunnel or connection, addresses, first.port, *outer_tls)
    if tunnel is None:
        return
    try:
        await tunnel.established
        assert context is not None
        inner = await loop.start_tls(transport, connection, context, server_hostname=url.host)
    except BaseException:
        transport.abort()
        raise
    if inner is None:
        raise Unreachable("the proxy closed the connection", why="proxy")
    connection.connection_made(inner)


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel to `url`."""

    def __init__(self, url: Url, proxy: Url) -> None:
        self.established: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = f"{url.bracketed}:{url.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if authorization := proxy_authorization(proxy):
            lines.append(f"Proxy-Authorization: {authorization}")
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.established.done():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            status = self._head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")[2]
            if status.startswith("2"):
                self.established.set_result(None)
            else:  # a proxy that refuses will refuse again, unless it was overloaded
                refused = Unreachable(f"the proxy refused: {status[:100]}", transient=status.startswith("5"), why="proxy")
                self.established.set_exception(refused)
        elif len(self._head) > TUNNEL_HEAD_LIMIT:
            self.established.set_exception(Unreachable("the proxy's answer is not HTTP", transient=False, why="proxy"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.established.done():
            self.established.set_exception(Unreachable("the proxy closed the connection", why="proxy"))


async def _connect(
    protocol: Callable[[], asyncio.Protocol],
    addresses: "Sequence[Address]",
    port: int,
    tls: "ssl.SSLContext | None",
    name: str | None,
) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    if len(addresses) == 1:  # `sock_connect` would start threads to resolve the address again
        transport, _ = await loop.create_connection(protocol, addresses[0][1], port, ssl=tls, server_hostname=name)
        _notice_death(transport.get_extra_info("socket"))
        return transport
    sock = await _dial_first(addresses, port)
    try:
        transport, _ = await loop.create_connection(protocol, sock=sock, ssl=tls, server_hostname=name)
    except BaseException:
        sock.close()
        raise
    return transport


async def _dial_first(addresses: "Sequence[Address]", port: int) -> socket.socket:
    """The first address that answers."""
    waiting = deque(addresses)
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    pending: set[asyncio.Task[socket.socket]] = set()
    try:
        while winner is None and (waiting or pending):
            if waiting:
                attempts.append(asyncio.create_task(_dial_one(waiting.popleft(), port)))
                pending.add(attempts[-1])
            done, pending = await asyncio.wait(
                pending, timeout=STAGGER_SECONDS if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            winner = next((task for task in done if task.exception() is None), None)
        if winner is None:
            raise cast(OSError, attempts[0].exception())
        return winner.result()
    finally:
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending)
        for task in attempts:
            if task is not winner and not task.cancelled() and task.exception() is None:
                task.result().close()


async def _dial_one(address: "Address", port: int) -> socket.socket:
    family, host = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_death(sock)
        await _connected(sock, host, port)
    except BaseException:
        sock.close()
        raise
    return sock


def _notice_death(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with suppress(OSError):  # a system that emulates another one may lack some
        for option in _ASKED:
            sock.setsockopt(*option)


async def _connected(sock: socket.socket, host: str, port: int) -> None:
    """Connect to a numeric address. uvloop's `sock_connect` looks it up in threads, and aborts the process if it gets none."""
    error = sock.connect_ex((host, port))
    if error == errno.EINPROGRESS:
        loop = asyncio.get_running_loop()
        writable = loop.create_future()
        loop.add_writer(sock, lambda: writable.done() or writable.set_result(None))
        try:
            await writable
        finally:
            loop.remove_writer(sock)
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


async def _resolve(host: str) -> "Sequence[Address]":
    """Numeric addresses need no thread."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, host)]
    from understudy.net.names import addresses_of

    return await addresses_of(host)


def _explained(to: str, error: OSError) -> Unreachable:
    match error:
        case ConnectionRefusedError():
            return Unreachable(f"{to}: connection refused", why="refused")
        case ssl.SSLCertVerificationError():
            why = "date" if error.verify_code in _OUT_OF_DATE else "certificate"
            return Unreachable(f"{to}: the server's certificate is not trusted ({error.verify_message})", transient=False, why=why)
        case ssl.SSLError():
            return Unreachable(f"{to}: TLS failed ({error.reason or 'handshake'})", why="tls")
        case _:
            return Unreachable(f"{to}: {os.strerror(error.errno) if error.errno else error or type(error).__name__}")
