"""A question answered at the same instant by an MCP client, an editor, a terminal and REST: one answer counts, and all are told."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.answer_race import race
from tests.support.http_server import HttpServer
from tests.support.rest_client import RestClient
from understudy.testing.waiting import WAIT_SECONDS


class RestDoor:
    def __init__(self, rest: RestClient, thread: str) -> None:
        self._rest = rest
        self._where = f"/v1/conversations/{thread}"
        self._asked: dict[str, Any] = {}
        self._outcomes: list[tuple[int, str]] = []  # the status, and the decision that counts

    async def ready(self, number: int, decision: str) -> None:
        async with asyncio.timeout(4 * WAIT_SECONDS):
            while True:  # the server only reads along
                found = (await self._rest.get(self._where))["questions"]
                if len(found) == 1 and f"echo {number} " in json.dumps(found):
                    self._asked = found[0]
                    return
                await asyncio.sleep(0.01)

    async def answer(self, decision: str) -> None:
        body = {"call_id": self._asked["call_id"], "decision": decision, "mark": self._asked["mark"]}
        response = await self._rest.request("POST", f"{self._where}/decisions", body)
        told = json.loads(await response.body())
        self._outcomes.append((response.status, told.get("decision") or told["error"].get("decision", "")))

    async def check(self, counting: list[str]) -> None:
        assert all(status in (200, 409) for status, _ in self._outcomes), self._outcomes
        assert [decision for _, decision in self._outcomes] == counting  # whoever comes second is told what counts


@asynccontextmanager
async def by_rest(server: HttpServer, thread: str) -> AsyncGenerator[RestDoor]:
    yield RestDoor(RestClient(server.port, server.token), thread)


async def test_of_four_answers_at_once_one_counts_and_all_doors_are_told(tmp_path: Path) -> None:
    await race(tmp_path, 5, random.Random(1), by_rest)


@pytest.mark.slow
async def test_of_four_answers_at_once_one_counts_two_hundred_times(tmp_path: Path) -> None:
    async with asyncio.timeout(120 * WAIT_SECONDS):
        await race(tmp_path, 200, random.Random(2), by_rest)
