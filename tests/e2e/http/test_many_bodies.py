"""Requests that come in great numbers, or with bodies that never end: each is answered, soon, and memory stays bounded."""

import asyncio
from pathlib import Path

import pytest

from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing.waiting import WAIT_SECONDS

MIB = 1024 * 1024
MEGABYTES = 200  # of the server, which may hold 64 MB of unfinished bodies of one caller


def head(server: HttpServer, path: str, length: int, method: str = "POST") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def until(reader: asyncio.StreamReader, mark: bytes, count: int = 1) -> bytes:
    came = b""
    async with asyncio.timeout(WAIT_SECONDS):
        while came.count(mark) < count:
            data = await reader.read(1 << 16)
            assert data, came[-500:]
            came += data
    return came


@pytest.mark.parametrize(("path", "size"), [("/healthz", 0), ("/v1/me", 0), ("/v1/me", 60_000)])
async def test_a_thousand_requests_in_one_write_are_all_answered(tmp_path: Path, path: str, size: int) -> None:
    count = 1000 if not size else 20
    async with HttpServer(tmp_path) as server:
        one = head(server, path, size, "GET") + b" " * size
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(one * count)
        came = await until(reader, b"HTTP/1.1 ", count)
        assert (came.count(b"HTTP/1.1 200 "), came.count(b"HTTP/1.1 400 ")) == (count, 0)
        writer.close()


async def test_a_head_without_end_is_still_refused(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X-More: " + b"x" * 70_000)
        assert b"400 Bad Request" in await until(reader, b"HTTP/1.1 ")
        writer.close()


@pytest.mark.parametrize("path", ["/mcp", "/v1/conversations"])
async def test_a_body_whose_length_is_too_large_is_refused_before_it_comes(tmp_path: Path, path: str) -> None:
    async with HttpServer(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head(server, path, 200 * MIB))
        assert b" 413 " in await until(reader, b"HTTP/1.1 ")
        writer.close()


async def test_who_sends_the_whole_of_it_all_the_same_reads_why(tmp_path: Path) -> None:
    async with HttpServer(tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head(server, "/mcp", 40 * MIB))
        for _ in range(40):
            writer.write(bytes(MIB))
            await writer.drain()
        assert b" 413 " in await until(reader, b"HTTP/1.1 ")
        writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mcp", "/v1/conversations"])
async def test_unfinished_bodies_of_one_caller_take_bounded_memory_and_others_are_served(tmp_path: Path, path: str) -> None:
    async with HttpServer(tmp_path) as server:

        async def send_most_of_one() -> int:
            """The status, or 0: the server waits for the rest."""
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writers.append(writer)
            writer.write(head(server, path, 30 * MIB))
            for _ in range(29):
                writer.write(b" " * MIB)
                await writer.drain()
            try:
                return int((await asyncio.wait_for(reader.read(1000), 1)).split()[1])
            except TimeoutError:
                return 0

        writers: list[asyncio.StreamWriter] = []
        statuses = await asyncio.wait_for(asyncio.gather(*(send_most_of_one() for _ in range(16))), WAIT_SECONDS)
        assert 503 in statuses
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert int(status.partition("VmHWM:")[2].split()[0]) // 1024 < MEGABYTES
        assert (await RestClient(server.port, server.token).get("/v1/me"))["name"] == "local"
        for writer in writers:
            writer.transport.abort()
