"""Connections whose other end has forgotten them, as after the sleep of a machine, or behind a router that was restarted."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.models.loopback import BOUND, HANG, STREAM_HEAD, loopback
from tests.net.test_tls import OK
from understudy.net import HttpClient, HttpResponse, parse_url

KEEPALIVE_TIMER = "02"


async def ask(client: HttpClient, url: str) -> HttpResponse:
    async with asyncio.timeout(BOUND):
        return await client.post(parse_url(url), [], [b"{}"], seconds=BOUND)


@pytest.mark.parametrize(("slept", "connections"), [(10.0, 1), (3600.0, 2)])
async def test_a_connection_from_before_a_sleep_is_not_used_again(slept: float, connections: int) -> None:
    """A loop's clock stands still meanwhile, so it is not what tells the age of a connection."""
    asleep = 0.0
    client = HttpClient({}, connect_seconds=BOUND, elapsed=lambda: asleep)
    async with loopback(OK, OK) as server:
        assert await (await ask(client, server.url)).read_text(BOUND, 10) == "ok"
        asleep = slept
        assert await (await ask(client, server.url)).read_text(BOUND, 10) == "ok"
        await client.aclose()
        assert server.connections == connections


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show the timers of connections")
async def test_the_system_asks_after_half_a_minute_whether_a_silent_server_is_there(tmp_path: Path) -> None:
    client = HttpClient({}, connect_seconds=BOUND)
    async with loopback([STREAM_HEAD, HANG]) as server:
        response = await ask(client, server.url)
        rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        [timer] = [row[5] for row in rows if row[2].endswith(f":{server.port:04X}") and row[3] == "01"]
        response.abort()
        await client.aclose()
    kind, hundredths = timer.split(":")
    assert kind == KEEPALIVE_TIMER
    assert int(hundredths, 16) <= 3000
