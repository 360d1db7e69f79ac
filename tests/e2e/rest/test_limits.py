"""What one caller may take of the server by REST: requests in a time, streams at once, and memory by not reading."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.e2e.scenes import resident_bytes
from tests.support.http_server import Response
from tests.support.rest_client import RestClient, serving_rest
from understudy.testing import ScriptedModel, deltas
from understudy.testing.waiting import WAIT_SECONDS

PIECE = "y" * 200_000
TURNS = 12
READERS = 40


@pytest.mark.slow
async def test_more_requests_than_a_token_may_send_are_refused_until_later_and_nobody_else_s(tmp_path: Path) -> None:
    async with serving_rest(tmp_path, None, config={"understudy.serve.rate": 1}) as (server, client):
        ann, bob = [RestClient(server.port, await server.add_token(name)) for name in ("ann", "bob")]
        asked = await asyncio.gather(*(ann.request("GET", "/v1/me") for _ in range(30)))
        refused = next(response for response in asked if response.status != 200)
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert (await refused.json())["error"]["code"] == "too_many_requests"
        assert (await bob.request("GET", "/v1/me")).status == 200
        for _ in range(20):
            await client.get("/v1/me")  # the local user is not counted
        async with asyncio.timeout(WAIT_SECONDS):
            while (await ann.request("GET", "/v1/me")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_caller_who_opens_three_hundred_streams_gets_as_many_as_are_allowed(tmp_path: Path) -> None:
    config = {"understudy.serve.rate": 0, "understudy.serve.concurrency": 100}
    async with serving_rest(tmp_path, None, config=config) as (server, client):
        ann = RestClient(server.port, await server.add_token("ann"))
        row = await ann.create(server.cwd, sandbox="workspace-write")

        async def open_one(number: int) -> Response:
            path = "/v1/changes" if number % 2 else f"/v1/conversations/{row['id']}/events?stream=1"
            return await ann.request("GET", path)

        opened: list[Response] = []
        for begin in range(0, 300, 50):
            opened += await asyncio.gather(*(open_one(begin + each) for each in range(50)))
        streams = [response for response in opened if response.status == 200]
        assert len(streams) == 100
        assert {response.status for response in opened} == {200, 429}
        assert (await ann.request("GET", "/v1/me")).status == 429
        assert (await client.get("/v1/me"))["name"] == "local"
        for each in streams:
            each.close()
        async with asyncio.timeout(WAIT_SECONDS):
            while (await ann.request("GET", "/v1/me")).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def begin_reading(port: int, token: str, path: str) -> socket.socket | None:
    """A client that asks, sees that an answer begins, and takes no more of it. None where it is one too many."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    reader.settimeout(WAIT_SECONDS)
    reader.connect(("127.0.0.1", port))
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    if reader.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200":
        return reader
    reader.close()
    return None


async def open_readers(port: int, token: str, path: str, count: int) -> list[socket.socket]:
    """That many; those that were closed before may still be counted for a moment."""
    readers: list[socket.socket] = []
    for _ in range(count):
        async with asyncio.timeout(WAIT_SECONDS):  # for each: there is much to read for it
            while (reader := await asyncio.to_thread(begin_reading, port, token, path)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        readers.append(reader)
    return readers


@pytest.mark.slow
async def test_readers_who_never_read_cost_little_memory_and_count_as_open_requests(tmp_path: Path) -> None:
    config = {"understudy.serve.concurrency": READERS}
    answers = [deltas([PIECE] * 5) for _ in range(TURNS)]  # each turn tells its answer twice: 24 MB
    async with ScriptedModel(answers) as model, serving_rest(tmp_path, model, config=config) as (server, client):
        ann = RestClient(server.port, token := await server.add_token("ann"))
        row = await ann.create(server.cwd, "go", sandbox="workspace-write")
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        for _ in range(TURNS - 1):
            await client.post(f"/v1/conversations/{row['id']}/messages", {"text": "more"})
            await stream.until("task_complete")
        before = resident_bytes(server.process.pid)
        path = f"/v1/conversations/{row['id']}"
        readers = await open_readers(server.port, token, f"{path}/events?stream=1", READERS)
        try:
            assert (await ann.request("GET", "/v1/me")).status == 429
            grown = resident_bytes(server.process.pid) - before
            assert grown < READERS * 10_000_000, grown
            while readers:
                readers.pop().close()
            # Whole answers, which would otherwise lie in the buffers of connections, counted by nobody.
            for address, count in ((f"{path}/export", 3), ("/v1/changes", READERS - 3)):
                readers += await open_readers(server.port, token, address, count)
            assert (await ann.request("GET", "/v1/me")).status == 429
        finally:
            for reader in readers:
                reader.close()
