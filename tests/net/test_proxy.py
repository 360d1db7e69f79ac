"""Proxies: which requests go through one, how, and what is told when it refuses."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from tests.models.authority import Authority
from tests.models.loopback import BOUND, Request, loopback, read_request
from understudy.net import HttpClient, Unreachable, parse_url
from understudy.net.addresses import proxy_for

OK = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]
BASIC = "Basic " + b64encode(b"user:p@ss").decode()


@dataclass
class Proxy:
    answer: bytes
    port: int = 0
    requests: list[Request] = field(default_factory=list[Request])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            request = await read_request(reader)
            self.requests.append(request)
            writer.write(self.answer)
            if request.method == "CONNECT" and b" 200 " in self.answer:
                await self._tunnel(request.target, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _tunnel(self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = place.rpartition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there_writer))
                group.create_task(_pump(there_reader, writer))
        finally:
            there_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Proxy]:
    server = Proxy(answer)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
        await listener.wait_closed()


async def fetch(url: str, env: dict[str, str]) -> str:
    client = HttpClient(env, connect_seconds=BOUND)
    try:
        async with asyncio.timeout(BOUND):
            response = await client.post(parse_url(url), [], [b"{}"], seconds=BOUND)
            return await response.read_text(BOUND, 1000)
    finally:
        await client.aclose()


async def test_plain_requests_name_their_whole_address_to_the_proxy() -> None:
    async with proxy(OK[0]) as between:
        env = {"http_proxy": f"http://user:p%40ss@127.0.0.1:{between.port}"}
        assert await fetch("http://model.invalid:81/v1?q=1", env) == "ok"
    request = between.requests[0]
    assert (request.method, request.target) == ("POST", "http://model.invalid:81/v1?q=1")
    assert request.headers["host"] == "model.invalid:81"
    assert request.headers["proxy-authorization"] == BASIC


@pytest.mark.parametrize("proxy_tls", [False, True], ids=["plain proxy", "proxy over TLS"])
async def test_tls_goes_through_a_tunnel(authority: Authority, *, proxy_tls: bool) -> None:
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    context = authority.context if proxy_tls else None
    async with loopback(OK, tls=authority.context) as server, proxy(established, context) as between:
        scheme = "https" if proxy_tls else "http"
        env = {"HTTPS_PROXY": f"{scheme}://user:p%40ss@127.0.0.1:{between.port}", "SSL_CERT_FILE": str(authority.certificate)}
        assert await fetch(server.url, env) == "ok"
    request = between.requests[0]
    assert (request.method, request.target) == ("CONNECT", f"127.0.0.1:{server.port}")
    assert request.headers["proxy-authorization"] == BASIC
    assert "proxy-authorization" not in server.requests[0].headers
    assert server.requests[0].target == "/v1"


@pytest.mark.parametrize(("answer", "transient"), [("407 Proxy Authentication Required", False), ("502 Bad Gateway", True)])
async def test_a_proxy_that_refuses_is_named_without_its_password(answer: str, *, transient: bool) -> None:
    async with proxy(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode()) as between:
        env = {"https_proxy": f"http://user:word@127.0.0.1:{between.port}"}
        with pytest.raises(Unreachable) as refused:
            await fetch("https://model.invalid/v1", env)
    assert str(refused.value) == (
        f"cannot connect to https://model.invalid/v1 through the proxy http://127.0.0.1:{between.port}: the proxy refused: {answer}"
    )
    assert refused.value.transient is transient


async def test_a_proxy_that_hangs_up_or_is_not_there_is_told() -> None:
    async with proxy(b"") as between:
        env = {"https_proxy": f"http://127.0.0.1:{between.port}"}
        with pytest.raises(Unreachable, match="the proxy closed the connection"):
            await fetch("https://model.invalid/v1", env)
    with pytest.raises(Unreachable, match=rf"through the proxy http://127\.0\.0\.1:{between.port}: connection refused"):
        await fetch("https://model.invalid/v1", env)


PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("url", "env", "expected"),
    [
        ("http://host/", {}, None),
        ("http://host/", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://host/", {"HTTP_PROXY": PROXY}, None),
        ("https://host/", {"all_proxy": PROXY}, PROXY),
        ("https://host/", {"ALL_PROXY": "http://other:1", "https_proxy": PROXY}, PROXY),
        ("https://host/", {"HTTPS_PROXY": "http://other:1", "https_proxy": PROXY}, PROXY),
        ("https://host/", {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        ("https://host/", {"HTTPS_PROXY": "  "}, None),
        ("http://127.0.0.1:1/", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://127.0.0.1:1/", {"HTTP_PROXY": PROXY, "NO_PROXY": "localhost,127.0.0.1"}, None),
        ("http://127.0.0.1:1/", {"HTTP_PROXY": PROXY, "no_proxy": "127.0.0.0/8"}, None),
        ("http://[::1]:1/", {"HTTP_PROXY": PROXY, "no_proxy": "[::1]"}, None),
        ("http://[::1]:1/", {"HTTP_PROXY": PROXY, "no_proxy": "::1"}, None),
        ("http://api.host.example/", {"HTTP_PROXY": PROXY, "no_proxy": "host.example"}, None),
        ("http://api.host.example/", {"HTTP_PROXY": PROXY, "no_proxy": ".host.example"}, None),
        ("http://api.host.example/", {"HTTP_PROXY": PROXY, "no_proxy": "*.host.example"}, None),
        ("http://ghost.example/", {"HTTP_PROXY": PROXY, "no_proxy": "host.example"}, PROXY),
        ("http://host:80/", {"HTTP_PROXY": PROXY, "no_proxy": "host:81"}, PROXY),
        ("http://host:81/", {"HTTP_PROXY": PROXY, "no_proxy": "x, host:81"}, None),
        ("http://host/", {"HTTP_PROXY": PROXY, "no_proxy": "10.0.0.0/8,nonsense/99"}, PROXY),
        ("http://host/", {"HTTP_PROXY": PROXY, "no_proxy": "*"}, None),
    ],
)
def test_the_variables_choose_the_proxy(url: str, env: dict[str, str], expected: str | None) -> None:
    chosen = proxy_for(parse_url(url), env)
    assert (str(chosen).removesuffix("/") if chosen else None) == expected


@pytest.mark.parametrize("value", ["socks5://user:word@proxy:1080", "http://user:word@:::"])
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(value: str) -> None:
    with pytest.raises(Unreachable, match="HTTPS_PROXY") as refused:
        proxy_for(parse_url("https://host/"), {"HTTPS_PROXY": value})
    assert "word" not in str(refused.value)
    assert not refused.value.transient
