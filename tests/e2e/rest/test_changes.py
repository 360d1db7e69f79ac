"""The stream of changes: every row of the list, however far down it is, and nothing that did not happen."""

import asyncio
from pathlib import Path

import pytest

from tests.support.rest_client import RestClient, serving_rest

MANY = 64  # more than are looked at each time


async def made(client: RestClient, cwd: Path, count: int) -> list[str]:
    """At once, which is quicker."""
    rows = await asyncio.gather(*(client.create(cwd) for _ in range(count)))
    return [row["id"] for row in rows]


async def test_what_happens_far_down_in_the_list_is_told(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, client):
        kept, gone = await made(client, server.cwd, 2)
        await made(client, server.cwd, MANY)
        changes = await client.changes()
        await client.post(f"/v1/conversations/{kept}/archive")
        assert (await changes.until_it(lambda data: data["id"] == kept))["archived"] is True
        await client.post(f"/v1/conversations/{kept}/unarchive")
        assert (await changes.until_it(lambda data: data["id"] == kept))["archived"] is False
        await client.delete(f"/v1/conversations/{gone}")
        assert await changes.until_it(lambda data: data["id"] == gone) == {"id": gone, "deleted": True}


@pytest.mark.slow
async def test_a_row_that_others_push_down_is_not_told_as_deleted(tmp_path: Path) -> None:
    async with serving_rest(tmp_path) as (server, client):
        old = await made(client, server.cwd, 1)
        await client.post(f"/v1/conversations/{old[0]}/archive")
        await made(client, server.cwd, MANY)
        changes = await client.changes()
        more = await made(client, server.cwd, MANY)
        await changes.until_it(lambda data: data["id"] == more[-1])
        await client.post(f"/v1/conversations/{more[-1]}/rename", {"title": "one more look"})
        await changes.until_it(lambda data: data.get("title") == "one more look")
        assert [event["data"] for event in changes.seen if event["data"].get("deleted")] == []
