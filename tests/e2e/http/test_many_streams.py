"""Five hundred open streams while one conversation talks: each viewer has every word, the others nothing, nobody is kept out."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.http.test_listening import created, say_to, take_until, watching
from tests.e2e.http.test_resuming import text_in
from tests.support.http_server import HttpClient, Response, serving
from understudy.testing import ScriptedModel, deltas

STREAMS = 500
VIEWERS = 20
AT_ONCE = 25


async def listening(port: int, token: str) -> tuple[HttpClient, Response]:
    client = HttpClient(port, token)
    await client.initialize()
    return client, await client.listen()


@pytest.mark.slow
async def test_with_five_hundred_streams_open_each_viewer_has_every_word(tmp_path: Path) -> None:
    words = [f"word{number} " for number in range(200)]
    async with ScriptedModel([deltas(list[Any](words))]) as model, serving(tmp_path, model) as (server, client):
        await client.initialize()
        conversation = await created(client)
        idle: list[tuple[HttpClient, Response]] = []
        for _ in range(STREAMS // AT_ONCE):
            idle += await asyncio.gather(*(listening(server.port, server.token) for _ in range(AT_ONCE)))
        viewers: list[Response] = []
        for _ in range(VIEWERS):
            viewer = HttpClient(server.port, server.token)
            await viewer.initialize()
            viewers.append(await watching(viewer, conversation))
        await say_to(client, conversation)
        for shown in await asyncio.gather(*(take_until(viewer, "task_complete") for viewer in viewers)):
            assert text_in(shown) == "".join(words)
        for other, stream in idle[:: STREAMS // 10]:
            assert (await other.request("DELETE", other.session_headers())).status == 200  # which ends its stream
            assert [event async for event in stream.events()] == []
        assert (await client.post("ping")).status == 200
