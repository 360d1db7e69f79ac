"""A question answered at the same instant over every HTTP door: by a task's update, by an MCP session, and by REST with a token and
with the page's cookie. One answer counts, and all are told.

`python -m tests.e2e.http.test_answers_at_once 200` plays as many rounds as one likes.
"""

import asyncio
import json
import random
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.answer_race import ASKS, Commands, decisions
from tests.support.http_server import HttpClient, HttpServer
from tests.support.rest_client import RestClient, log_in
from tests.support.task_clients import HttpDoor, Json, TaskClient
from understudy.testing import ScriptedModel
from understudy.testing.waiting import WAIT_SECONDS

NUMBER = re.compile(r"echo (\d+) ")


class Doors:
    """The four of them, at one conversation. `told` has for each what it was told about each question."""

    def __init__(self, server: HttpServer, page: RestClient) -> None:
        self._tasks = TaskClient(HttpDoor(HttpClient(server.port, server.token)))
        self._session = HttpClient(server.port, server.token)
        self._rest = {"rest": RestClient(server.port, server.token), "page": page}
        self.told: dict[str, list[str]] = {name: [] for name in self._rest}
        self._task = ""
        self._place = ""
        self._events: AsyncIterator[Json]

    async def begin(self, work: Path) -> str:
        """The conversation."""
        self._task = await self._tasks.begin(cwd=str(work))
        await self._tasks.asked(self._task)
        [row] = (await self._rest["rest"].get("/v1/conversations"))["conversations"]
        self._place = f"/v1/conversations/{row['id']}"
        await self._session.initialize()
        self._events = (await self._session.listen()).events()
        await self._session.result("conversationStream", {"conversation_id": row["id"]})
        return row["id"]

    async def play(self, number: int, chosen: dict[str, str], chance: random.Random) -> None:
        """Everyone is shown the question, then all of them answer it."""
        elicited = await self._elicited(number)
        key = await self._input_key(number)
        [question] = (await self._rest["rest"].get(self._place))["questions"]
        assert number_in(question) == number
        acts: list[Callable[[], Awaitable[object]]] = [
            partial(self._tasks.update, self._task, {key: answering(chosen["task"])}),
            partial(self._session.send, {"jsonrpc": "2.0", "id": elicited["id"], "result": answering(chosen["session"])}),
            *(partial(self._decide, name, question, chosen[name]) for name in self._rest),
        ]
        chance.shuffle(acts)
        await asyncio.gather(*(act() for act in acts))
        now = await self._tasks.get(self._task)
        assert key not in now.get("inputRequests", {}), "a task whose update is acknowledged does not ask again"

    async def over(self) -> Json:
        return (await self._tasks.over(self._task))["result"]["structuredContent"]

    async def _elicited(self, number: int) -> Json:
        """By the stream of the session, which goes on though another answer was the first."""
        async with asyncio.timeout(4 * WAIT_SECONDS):
            async for event in self._events:
                message: Json = event.get("data") or {}
                if message.get("method") == "elicitation/create":
                    assert number_in(message) == number
                    return message
        raise AssertionError("the stream has ended")

    async def _input_key(self, number: int) -> str:
        [(key, request)] = (await self._tasks.asked(self._task)).items()
        assert number_in(request) == number
        return key

    async def _decide(self, name: str, question: Json, decision: str) -> None:
        body = {"call_id": question["call_id"], "decision": decision, "mark": question["mark"]}
        response = await self._rest[name].request("POST", f"{self._place}/decisions", body)
        told = json.loads(await response.body())
        assert response.status in (200, 409), told
        self.told[name].append(told["decision"] if response.status == 200 else told["error"]["decision"])


def answering(decision: str) -> Json:
    return {"action": "accept", "content": {"decision": decision}}


def number_in(question: Any) -> int:
    found = NUMBER.search(json.dumps(question))
    assert found is not None, question
    return int(found[1])


async def race(tmp_path: Path, rounds: int, chance: random.Random) -> None:
    async with ScriptedModel(Commands(rounds)) as model, HttpServer(tmp_path, model, config=ASKS) as server:
        doors = Doors(server, await log_in(server))
        thread = await doors.begin(server.cwd)
        for number in range(1, rounds + 1):
            await doors.play(number, {name: chance.choice(["approved", "denied"]) for name in DOORS}, chance)
        assert (await doors.over())["content"] == "done"
        decided = await asyncio.to_thread(decisions, thread, server.home.path)
        counting = [record["decision"] for record in decided if record.get("effective", True)]
        assert len(counting) == rounds
        assert doors.told == {"rest": counting, "page": counting}  # whoever comes second is told what counts
        log = server.cwd / "log.txt"
        ran = [int(line) for line in log.read_text().split()] if log.exists() else []
        assert ran == [number for number, decision in enumerate(counting, start=1) if decision == "approved"]


DOORS = ("task", "session", "rest", "page")


@pytest.mark.slow
async def test_of_four_answers_over_http_at_once_one_counts_and_all_doors_are_told(tmp_path: Path) -> None:
    await race(tmp_path, 5, random.Random(1))


@pytest.mark.slow
async def test_of_four_answers_over_http_at_once_one_counts_two_hundred_times(tmp_path: Path) -> None:
    async with asyncio.timeout(120 * WAIT_SECONDS):
        await race(tmp_path, 200, random.Random(2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(race(Path(folder), int(sys.argv[1]), random.Random()))
