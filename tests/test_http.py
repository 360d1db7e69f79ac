"""The HTTP client against a raw server: connections kept and remade, bodies of every kind, limits, and readable failures."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import Sequence

import pytest

from tests.models.loopback import BOUND, CLOSE, HANG, LAST_CHUNK, RESET, STREAM_HEAD, Action, chunk, loopback, settle
from understudy.net import AnswerCut, AnswerSilent, BadAnswer, HttpClient, HttpFailure, HttpResponse, Unreachable, parse_url

OK = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]


async def post(client: HttpClient, url: str, body: bytes = b"{}", seconds: float = BOUND) -> HttpResponse:
    async with asyncio.timeout(BOUND):
        return await client.post(parse_url(url), [("X-Test", "yes")], [body], seconds=seconds)


async def body_of(response: HttpResponse) -> bytes:
    pieces: list[bytes] = []
    async with asyncio.timeout(BOUND):
        while piece := await response.read(BOUND):
            pieces.append(piece)
    response.finish()
    return b"".join(pieces)


async def exchange(*actions: Action, env: dict[str, str] | None = None) -> bytes:
    client = HttpClient(env or {})
    async with loopback(actions) as server:
        try:
            return await body_of(await post(client, server.url))
        finally:
            await client.aclose()


async def test_a_request_is_sent_as_it_should_be() -> None:
    client = HttpClient({})
    async with loopback(OK) as server:
        response = await post(client, f"{server.url}/é?q=1", b"hello")
        assert (response.status, response.reason, response.headers) == (200, "OK", {"content-length": "2"})
        assert await body_of(response) == b"ok"
        await client.aclose()
    request = server.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/v1/%C3%A9?q=1", b"hello")
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "x-test": "yes",
        "accept-encoding": "identity",
        "content-length": "5",
    }


@pytest.mark.parametrize(
    "actions",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk(b"he"), chunk(b"llo"), LAST_CHUNK],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\n\r\nhel", b"lo", CLOSE],
        [b"HTTP/1.0 200 OK\r\n\r\nhello", CLOSE],
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", gzip.compress(b"hello"), CLOSE],
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n", *(bytes([byte]) for byte in zlib.compress(b"hello")), CLOSE],
        [*(bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")],
    ],
    ids=["length", "chunked", "extension and trailer", "until close", "HTTP/1.0", "interim", "gzip", "deflate", "byte by byte"],
)  # fmt: skip
async def test_bodies_of_every_kind_are_read(actions: Sequence[Action]) -> None:
    assert await exchange(*actions) == b"hello"


async def test_an_answer_without_a_body_is_empty() -> None:
    assert await exchange(b"HTTP/1.1 204 No Content\r\n\r\n") == b""


@pytest.mark.parametrize(
    ("actions", "failure", "words"),
    [
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", CLOSE], AnswerCut, "closed the connection"),
        ([STREAM_HEAD, chunk(b"he"), CLOSE], AnswerCut, "closed the connection"),
        ([STREAM_HEAD, chunk(b"he"), 0.05, RESET], AnswerCut, "reset the connection"),
        ([CLOSE], AnswerCut, "closed the connection"),
        ([b"SSH-2.0-OpenSSH\r\n", HANG], BadAnswer, "not valid HTTP"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", HANG], BadAnswer, "protocol"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, HANG], BadAnswer, "65536 bytes of headers"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all", CLOSE], BadAnswer, "unpacked"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nxx", CLOSE], BadAnswer, "encoded as 'br'"),
        ([STREAM_HEAD, b"zz\r\n", HANG], BadAnswer, "not valid HTTP"),
    ],
)
async def test_broken_answers_are_told_in_words(actions: list[Action], failure: type[HttpFailure], words: str) -> None:
    with pytest.raises(failure, match=words):
        await exchange(*actions)


async def test_a_small_body_that_unpacks_to_a_huge_one_is_read_in_bounded_steps() -> None:
    packed = gzip.compress(b"x" * 20_000_000)
    client = HttpClient({})
    async with loopback([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", packed, CLOSE]) as server:
        response = await post(client, server.url)
        sizes: list[int] = []
        while piece := await response.read(BOUND):
            sizes.append(len(piece))
        await client.aclose()
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1024 * 1024


async def test_connections_are_used_again() -> None:
    client = HttpClient({})
    async with loopback(OK, [STREAM_HEAD, chunk(b"ok"), LAST_CHUNK], OK) as server:
        for _ in range(3):
            assert await body_of(await post(client, server.url)) == b"ok"
        assert server.connections == 1
        await client.aclose()


async def test_a_connection_serves_again_when_the_rest_of_the_answer_comes_soon() -> None:
    client = HttpClient({})
    async with loopback([STREAM_HEAD, chunk(b"all"), 0.05, chunk(b"rest"), LAST_CHUNK], OK, OK) as server:
        response = await post(client, server.url)
        assert await response.read(BOUND) == b"all"
        response.finish()
        assert await body_of(await post(client, server.url)) == b"ok"  # does not wait for it
        await settle()
        assert await body_of(await post(client, server.url)) == b"ok"
        assert server.connections == 2
        await client.aclose()


async def test_concurrent_requests_have_a_connection_each() -> None:
    client = HttpClient({})
    slow = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 0.05, b"ok"]
    async with loopback(*[slow] * 5) as server:
        responses = await asyncio.gather(*(post(client, server.url) for _ in range(5)))
        assert await asyncio.gather(*map(body_of, responses)) == [b"ok"] * 5
        assert server.connections == 5
        await client.aclose()


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_kept_connection_that_went_stale_is_replaced_unnoticed(end: str) -> None:
    client = HttpClient({})
    async with loopback(OK, [end], OK) as server:
        assert await body_of(await post(client, server.url)) == b"ok"
        assert await body_of(await post(client, server.url)) == b"ok"
        assert (server.connections, len(server.requests)) == (2, 3)
        await client.aclose()


async def test_a_new_connection_that_breaks_is_not_tried_in_silence() -> None:
    with pytest.raises(AnswerCut):
        await exchange(CLOSE)


@pytest.mark.parametrize(
    "first",
    [
        [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
        [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
        [*OK, b"surprise"],
        [OK[0] + b"surprise"],
        [OK[0] + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"],
        [*OK, 0.01, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"],
    ],
    ids=["close", "HTTP/1.0", "surplus", "surplus at once", "a second answer at once", "a second answer"],
)
async def test_a_connection_that_cannot_be_trusted_is_not_kept(first: list[Action]) -> None:
    client = HttpClient({})
    async with loopback(first, OK) as server:
        assert await body_of(await post(client, server.url)) == b"ok"
        await settle()
        assert await body_of(await post(client, server.url)) == b"ok"
        assert server.connections == 2
        await client.aclose()


async def test_silence_is_noticed_at_each_stage() -> None:
    client = HttpClient({})
    async with loopback([HANG], [STREAM_HEAD, chunk(b"x"), HANG]) as server:
        with pytest.raises(AnswerSilent):
            await post(client, server.url, seconds=0.05)
        response = await post(client, server.url)
        assert await response.read(BOUND) == b"x"
        with pytest.raises(AnswerSilent):
            await response.read(0.05)
        response.abort()
        await client.aclose()


async def test_cancelling_a_request_hangs_up() -> None:
    client = HttpClient({})
    async with loopback([HANG]) as server, asyncio.timeout(BOUND):
        asking = asyncio.create_task(post(client, server.url))
        await server.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await server.hung_up.wait()
        await client.aclose()


async def test_a_reader_that_is_behind_makes_the_server_wait() -> None:
    megabyte = b"x" * (1024 * 1024)
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * len(megabyte)))
        for _ in range(64):
            writer.write(megabyte)
            await writer.drain()
            sent += len(megabyte)
        writer.close()
        await writer.wait_closed()

    client = HttpClient({})
    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        response = await post(client, f"http://127.0.0.1:{port}/")
        seen = -1
        while seen != sent:
            seen = sent
            await asyncio.sleep(0.1)
        assert sent < 32 * len(megabyte)  # what the two kernels hold, and little more
        assert len(await body_of(response)) == 64 * len(megabyte)
        await client.aclose()


async def test_names_are_tried_at_every_address_they_have() -> None:
    client = HttpClient({})
    async with loopback(OK) as server:  # on 127.0.0.1 only; localhost may mean ::1 first
        assert await body_of(await post(client, f"http://localhost:{server.port}/")) == b"ok"
        assert server.requests[0].headers["host"] == f"localhost:{server.port}"
        await client.aclose()


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
async def test_ipv6_addresses_are_reached() -> None:
    client = HttpClient({})
    try:
        async with loopback(OK, host="::1") as server:
            assert await body_of(await post(client, f"http://[::1]:{server.port}/")) == b"ok"
            assert server.requests[0].headers["host"] == f"[::1]:{server.port}"
    except OSError:
        pytest.skip("this system has no IPv6 loopback")
    finally:
        await client.aclose()


async def test_failures_to_connect_are_told_in_words_and_without_secrets() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        client = HttpClient({}, connect_seconds=BOUND)
        with pytest.raises(Unreachable) as refused:
            await post(client, f"http://user:word@127.0.0.1:{port}/v1?key=secret")
    assert str(refused.value) == f"cannot connect to http://127.0.0.1:{port}/v1: connection refused"
    assert refused.value.transient
    with pytest.raises(Unreachable, match=r"^cannot connect to http://no-such-host\.invalid/: the name no-such-host\.invalid"):
        await post(client, "http://no-such-host.invalid/")
    await client.aclose()


async def test_connecting_takes_no_longer_than_allowed() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]  # the kernel lets nobody in once the queue is full
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        client = HttpClient({}, connect_seconds=0.1)
        with pytest.raises(Unreachable, match=r"no connection within 0\.1 seconds"):
            await post(client, f"http://127.0.0.1:{full.getsockname()[1]}/")
        for filler in fillers:
            filler.close()
        await client.aclose()
