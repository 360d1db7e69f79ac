"""What is too old is used again in the very moment in which it is deleted: by the same server, and by another one of its home.

Whoever is first wins, and everybody is told the same: a message that was taken is in a conversation that is still there, and for
one that was deleted there is no such conversation.
"""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.http.test_decided_from import understudy
from tests.e2e.http.test_retention import age
from tests.support.http_server import HttpServer
from tests.support.obliging_model import ObligingModel
from tests.support.rest_client import RestClient
from understudy.testing.waiting import WAIT_SECONDS

MANY = 48
TAKEN, GONE = (202, ""), (404, "not_found")


async def use(client: RestClient, conversation: str, number: int) -> tuple[int, str]:
    """By one of the ways in which a conversation is used."""
    one = f"/v1/conversations/{conversation}"
    if number % 3 == 1:
        status, code = await client.status("POST", f"{one}/rename", {"title": "used again"})
        return (202, "") if status == 200 else (status, code)
    if number % 3 == 2:
        await client.status("GET", one)  # whoever only looks does not keep it
    return await client.status("POST", f"{one}/messages", {"text": "hello again"})


async def settled(client: RestClient) -> set[str]:
    """Those that are left once nothing is at work."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            rows = (await client.get("/v1/conversations?limit=100"))["conversations"]
            if all(row["state"] == "idle" for row in rows):
                return {row["id"] for row in rows}
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_what_is_used_while_it_is_deleted_is_either_there_with_its_message_or_gone(tmp_path: Path) -> None:
    keeping = {"understudy.serve.keep_days": 7}
    async with ObligingModel() as model, HttpServer(tmp_path, model) as first:
        here = RestClient(first.port, first.token)
        made = [(await here.create(first.cwd, "hi"))["id"] for _ in range(MANY)]
        assert await settled(here) == set(made)
        age(first, {conversation: 100 - number for number, conversation in enumerate(made)})  # in this order they go
        (tmp_path / "other").mkdir()
        second = HttpServer(tmp_path / "other", model, config=keeping)  # it deletes as soon as it is there
        second.home.path.joinpath("config.toml").replace(first.home.path / "config.toml")
        second.home = first.home
        async with second:
            there = RestClient(second.port, first.token)
            async with asyncio.timeout(WAIT_SECONDS):
                while (await here.status("GET", f"/v1/conversations/{made[0]}"))[0] == 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.002)
            both = [(here, there)[number % 2] for number in range(MANY)]
            found = (await asyncio.gather(*(use(both[n], made[n], n) for n in reversed(range(MANY)))))[::-1]
            assert set(found) <= {TAKEN, GONE}, found
            taken = {conversation for conversation, answer in zip(made, found, strict=True) if answer == TAKEN}
            async with asyncio.timeout(WAIT_SECONDS):
                while not (left := await settled(there)) <= taken:  # noqa: ASYNC110  # those that nobody has used go
                    await asyncio.sleep(0.05)
            assert left == taken
            assert await settled(here) == taken
            for client in (here, there):
                for conversation in made:
                    status, _ = await client.status("GET", f"/v1/conversations/{conversation}")
                    assert status == (200 if conversation in taken else 404)
            await understudy(first, "verify")
