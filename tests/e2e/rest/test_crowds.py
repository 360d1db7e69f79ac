"""Streams of one conversation that come back all at once, as they do when a server or a network has: what they share is made once,
each step of the server is short, and none of them keeps it from ending.
"""

import asyncio
from pathlib import Path

import pytest

from tests.support.counted_steps import Steps
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing import ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

TURNS = 12
CALLS_IN_A_STEP = 60_000  # of a page read, encoded and shown a few times over; when nobody gave way it grew with the crowd
CALLS_TO_CONNECT = 100  # of the HTTP library, for each connection that a step finds
MEGABYTES = 150  # of the server; 600 streams took 586 when each was told of each of the others


async def told(client: RestClient, cwd: Path) -> tuple[str, list[str]]:
    """A conversation of some turns: its id, and those of its events."""
    row = await client.create(cwd, "turn 0")
    stream = await client.stream(row["id"])
    await stream.until("task_complete")
    for number in range(1, TURNS):
        await client.post(f"/v1/conversations/{row['id']}/messages", {"text": f"turn {number}"})
        await stream.until("task_complete")
    stream.close()
    return row["id"], [event["id"] for event in stream.seen if "id" in event]


class Crowd:
    """Streams that only read, and cheaply."""

    def __init__(self, server: HttpServer, conversation: str, last_id: str) -> None:
        self.port = server.port
        self._head = (
            f"GET /v1/conversations/{conversation}/events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {server.token}\r\nAccept: text/event-stream\r\nLast-Event-ID: {last_id}\r\n\r\n"
        ).encode()
        self._reading: list[asyncio.Task[None]] = []
        self.received = 0

    async def come(self, count: int, until: str) -> None:
        """All of them, until each has been shown the event with that id."""
        mark = f"id: {until}\r\n".encode()
        await asyncio.wait_for(asyncio.gather(*(self._come(mark) for _ in range(count))), WAIT_SECONDS)

    async def _come(self, mark: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self._head)
        tail = b""
        while mark not in tail:
            data = await reader.read(1 << 16)
            assert data, "the stream ended"
            self.received += len(data)
            tail = tail[-len(mark) :] + data
        self._reading.append(asyncio.create_task(self._read_on(reader, writer)))

    async def _read_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            self.received += len(data)
        writer.close()

    async def over(self) -> None:
        """The server has ended all of them."""
        await asyncio.wait_for(asyncio.gather(*self._reading), WAIT_SECONDS)


def most_megabytes(server: HttpServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


async def come_back(tmp_path: Path, count: int) -> None:
    steps = Steps(tmp_path)
    model = ScriptedModel([say("word " * 40)] * TURNS)
    async with model, HttpServer(tmp_path, model, started_by=steps.started_by) as server:
        conversation, ids = await told(RestClient(server.port, server.token), server.cwd)
        crowd = Crowd(server, conversation, ids[len(ids) // 2])
        steps.reset()
        await crowd.come(count, ids[-1])
        assert steps.calls < CALLS_IN_A_STEP + CALLS_TO_CONNECT * count, steps.where
        steps.reset()
        assert await server.stop() == 0
        assert steps.calls < CALLS_IN_A_STEP + 300 * count, steps.where  # all are told of the end in one step
        await crowd.over()


async def test_a_crowd_that_comes_back_at_once_is_served_in_short_steps(tmp_path: Path) -> None:
    await come_back(tmp_path, 60)


@pytest.mark.slow
async def test_of_a_large_crowd_too(tmp_path: Path) -> None:
    await come_back(tmp_path, 800)


@pytest.mark.slow
async def test_what_a_crowd_shares_is_in_memory_once(tmp_path: Path) -> None:
    async with ScriptedModel([say("word " * 40)] * TURNS) as model, HttpServer(tmp_path, model) as server:
        conversation, ids = await told(RestClient(server.port, server.token), server.cwd)
        crowd = Crowd(server, conversation, ids[len(ids) // 2])
        await crowd.come(600, ids[-1])
        assert most_megabytes(server) < MEGABYTES
        assert await server.stop() == 0
        await crowd.over()
