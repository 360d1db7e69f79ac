"""Streams of a model that mean no good: the server stays awake, its steps stay short, and each stream is given up with a reason."""

import asyncio
import zlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.support.counted_steps import Steps
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient

MIB = 1024 * 1024
CALLS_IN_A_STEP = 60_000
UNPACKED_IN_A_STEP = 256 * 1024
MEGABYTES = 220  # with the counting
EMPTY = b'data: {"choices":[{"index":0,"delta":{}}]}\n\n'
BLANK = b'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n'
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


def endless(piece: bytes) -> Iterator[bytes]:
    block = piece * (256 * 1024 // len(piece))
    while True:
        yield block


def packed(piece: bytes, size: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    block = piece * (MIB // len(piece))
    return b"".join(packer.compress(block) for _ in range(size // MIB)) + packer.flush()


@asynccontextmanager
async def answering(head: bytes, body: Iterator[bytes]) -> AsyncGenerator[str]:
    """A provider that answers each request with this, for as long as somebody reads it: its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + head + b"connection: close\r\n\r\n")
            for piece in body:
                writer.write(piece)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def given_up(tmp_path: Path, head: bytes, body: Iterator[bytes], reason: str) -> None:
    steps = Steps(tmp_path)
    async with answering(head, body) as url:
        provider = {"name": "Hostile", "base_url": url, "stream_max_retries": 0, "request_max_retries": 0}
        config = {"model": "m", "model_provider": "hostile", "model_providers": {"hostile": provider}}
        async with HttpServer(tmp_path, config=config, started_by=steps.started_by) as server:
            client = RestClient(server.port, server.token)
            row = await client.create(server.cwd)
            stream = await client.stream(row["id"])
            steps.reset()
            await client.post(f"/v1/conversations/{row['id']}/messages", {"text": "go"})
            told = await stream.until("error")
            await client.get("/v1/me")
            assert reason in told["msg"]["message"]
            assert steps.calls < CALLS_IN_A_STEP, steps.where
            assert steps.bytes_unpacked <= UNPACKED_IN_A_STEP
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            assert int(status.partition("VmHWM:")[2].split()[0]) // 1024 < MEGABYTES
            stream.close()


SAYS_NOTHING = "in which the model says nothing"
PACKED = b"content-encoding: gzip\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("piece", [EMPTY, BLANK, b":\n", b": a comment\n\n", b"data: {}\n\n", b"event: x\n"])
async def test_what_says_nothing_without_end_is_given_up(tmp_path: Path, piece: bytes) -> None:
    await given_up(tmp_path, b"", endless(piece), SAYS_NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize("piece", [BLANK, b":\n"])
async def test_a_small_body_that_unpacks_to_a_huge_one_is_unpacked_in_short_steps(tmp_path: Path, piece: bytes) -> None:
    await given_up(tmp_path, PACKED, iter([packed(piece, 80 * MIB)]), SAYS_NOTHING)


@pytest.mark.slow
async def test_text_without_end_is_given_up_in_short_steps(tmp_path: Path) -> None:
    await given_up(tmp_path, b"", endless(WORD.replace(b'"x"', b'"' + b"word " * 200 + b'"')), "more than 4 MiB of text")


@pytest.mark.slow
async def test_a_line_without_end_is_given_up_in_short_steps(tmp_path: Path) -> None:
    await given_up(tmp_path, b"", endless(b"data: x"), "an event of more than")


async def test_many_words_at_once_are_read_in_short_steps(tmp_path: Path) -> None:
    await given_up(tmp_path, PACKED, iter([packed(WORD, MIB)]), "stream closed")
