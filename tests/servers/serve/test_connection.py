"""How long a connection is kept, and which of many are let go."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from understudy.config.serve import ServeSettings
from understudy.servers.http.answers import Receive, Send, send_answer
from understudy.servers.http.guards import Guards
from understudy.servers.http.heads import Heads
from understudy.servers.http.principals import Principals
from understudy.servers.mcp_http.at_once import AtOnce
from understudy.servers.serve.connection import STUCK_SECONDS, Connection, Guest, make_room
from understudy.testing.waiting import WAIT_SECONDS


async def answer_at_once(scope: Any, receive: Receive, send: Send) -> None:
    """Whether its body has come or not."""
    await send_answer(send, 200, b"{}")


@asynccontextmanager
async def connected(folder: Path) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """To connections that are kept for a second."""
    config = Config(cast(Any, answer_at_once), ws="none", lifespan="off", log_config=None, timeout_keep_alive=1)
    config.load()
    state = ServerState()
    principals = Principals(ServeSettings(state_dir=folder, token_file=folder / "token"))
    heads = Heads(Guards("127.0.0.1", 8722, (), (), open_to_all=False), principals)
    at_once = cast(AtOnce, None)  # nothing here is for it
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, heads, at_once), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0)


HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:8722\r\nContent-Length: 10\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "then"),
    [(HEAD + b"x" * 10, b"\r\n"), (HEAD + b"x" * 10, b"\n"), (HEAD, b"x" * 10)],
    ids=["empty lines", "line feeds", "the body after the answer"],
)
async def test_what_begins_no_request_keeps_no_connection(tmp_path: Path, request_bytes: bytes, then: bytes) -> None:
    async with connected(tmp_path) as (reader, writer):
        writer.write(request_bytes)
        assert await asyncio.wait_for(reader.readuntil(b"{}"), WAIT_SECONDS)
        writer.write(then)
        closed = asyncio.ensure_future(reader.read())
        async with asyncio.timeout(WAIT_SECONDS):
            while not closed.done():
                await asyncio.wait([closed], timeout=0.2)
                if not closed.done() and not then.startswith(b"x"):
                    writer.write(then)
        assert isinstance(closed.exception(), OSError) or closed.result() == b""


@dataclass(eq=False)
class Client:
    name: str
    since: tuple[bool, float] | None
    gone: list[str] = field(default_factory=list[str])

    def waits_since(self) -> tuple[bool, float] | None:
        return self.since

    def let_go(self) -> None:
        self.gone.append(self.name)


IDLE, STUCK = False, True
NOW = 100.0


def let_go(most: int | None, *clients: tuple[bool, float] | None) -> list[int]:
    """Which of them, the last of whom has just come, go; in this order."""
    gone: list[str] = []
    here: list[Guest] = [Client(str(number), since, gone) for number, since in enumerate(clients)]
    make_room(here, most, here[-1], NOW)
    return [int(name) for name in gone]


def test_who_has_waited_longest_goes_first_and_before_those_who_do_not_read() -> None:
    stuck, old, served, young, new = (STUCK, 1.0), (IDLE, 2.0), None, (IDLE, 3.0), (IDLE, 4.0)
    assert let_go(4, stuck, old, served, young, new) == [1]
    assert let_go(4, stuck, served, young, served, new) == [2]
    assert let_go(4, stuck, served, served, served, new) == [0]


def test_who_has_not_read_for_a_moment_only_stays() -> None:
    long, short = (STUCK, NOW - STUCK_SECONDS), (STUCK, NOW - STUCK_SECONDS + 0.5)
    assert let_go(4, short, short, long, short, (IDLE, NOW)) == [2]
    assert let_go(4, short, short, short, short, (IDLE, NOW)) == []


def test_nobody_goes_where_there_is_room_or_all_are_served() -> None:
    idle = (IDLE, 1.0)
    assert let_go(4, idle, idle, idle, idle) == []
    assert let_go(4, None, None, None, None, idle) == []
    assert let_go(None, *[idle] * 100) == []


def test_many_go_together_before_the_last_place_is_taken() -> None:
    waiting = [(IDLE, float(number)) for number in range(96)]
    assert let_go(100, *waiting[:95]) == []
    assert let_go(100, *waiting) == [0, 1, 2, 3, 4]
