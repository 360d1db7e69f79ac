"""Workers, front ends and a database that are killed, or stand still, at random while conversations are at work: nothing that was
acknowledged is lost, and nothing is done twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.support.machines import Machines, machines
from tests.support.postgres import the_server
from tests.support.rest_client import RestClient
from understudy.testing import ReceivedRequest, call, say
from understudy.testing.script import Entry
from understudy.testing.waiting import WAIT_SECONDS

KILLS = int(os.environ.get("UNDERSTUDY_STORM_KILLS", "12"))
PAUSES = int(os.environ.get("UNDERSTUDY_STORM_PAUSES", "8"))
CONVERSATIONS = 4
SHORT_LEASE = 3
PATIENCE = 3 * WAIT_SECONDS


def answer(request: ReceivedRequest) -> Entry:
    """One command for each message, which leaves one line."""
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return say("done")
    name = str(last["content"] if isinstance(last["content"], str) else last["content"][-1]["text"]).split()[-1]
    return call("shell", command=["sh", "-c", f"sleep 0.1; echo {name} >> effects"])


class Storm:
    def __init__(self, those: Machines) -> None:
        self.those = those
        self.threads: dict[str, Path] = {}
        self.acknowledged: dict[str, str] = {}  # message, and its conversation
        self.is_over = False
        self._random = random.Random(20)

    def front(self) -> RestClient:
        return self.those.rest(self._random.choice("xy"))

    async def talk(self, name: str, number: int) -> None:
        """One message after the other; whoever was not told that it was taken does not count on it."""
        count = 0
        while not self.is_over:
            count += 1
            word = f"m{number}.{count}"
            try:
                response = await self.front().request("POST", f"/v1/conversations/{name}/messages", {"text": f"please {word}"})
                body = await response.body()
            except (OSError, asyncio.IncompleteReadError, ConnectionError):
                await asyncio.sleep(0.1)
                continue
            if response.status == 202:
                self.acknowledged[word] = name
            else:
                assert response.status in (409, 503), (response.status, body)
            await asyncio.sleep(0.3)

    async def kill_one(self) -> None:
        name = self._random.choice("aaabbbccxydp")
        if name == "p":  # the database itself, as in a crash
            await asyncio.to_thread(the_server().stop)
            await asyncio.to_thread(the_server().start)
            return
        if name == "d":  # every session of the database
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'understudy %%'"
            self.those.rows(f"{query} AND %s", True)
            return
        server = self.those.servers[name]
        await server.kill()
        await server.start()

    async def pause_one(self) -> None:
        """Shorter and longer than a lease. What it had is given up meanwhile, and when it wakes it does not know yet."""
        server = self.those.servers[self._random.choice("aaabbbccxy")]
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._random.choice((0.5, 1.0, 1.5)) * SHORT_LEASE)
        server.process.send_signal(signal.SIGCONT)

    async def events(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after, more = 0, True
        while more:
            page = await self.those.rest("x").get(f"/v1/conversations/{name}/events?after={after}&limit=1000")
            found += page["events"]
            after, more = page["last"], page["more"]
        return found


async def weathered(those: Machines, harm: Callable[[Storm], Awaitable[None]], times: int) -> None:
    """Conversations at work while harm is done so often; then everything has to be in its place."""
    storm = Storm(those)
    for number in range(CONVERSATIONS):
        work = those.work(str(number))
        storm.threads[(await those.rest("x").create(work))["id"]] = work
    talking = [asyncio.create_task(storm.talk(name, number)) for number, name in enumerate(storm.threads)]
    for _ in range(times):
        await asyncio.sleep(0.4)
        await harm(storm)
    storm.is_over = True
    await asyncio.gather(*talking)
    assert len(storm.acknowledged) > CONVERSATIONS
    async with asyncio.timeout(PATIENCE):  # until all is done, and nobody has anything
        while those.rows("SELECT (SELECT count(*) FROM inbox) + (SELECT count(*) FROM claims)") != [(0,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    for name, work in storm.threads.items():
        seqs = [
            row[0] for row in those.rows("SELECT seq FROM records JOIN conversations ON number = conversation WHERE id = %s", name)
        ]
        assert sorted(seqs) == list(range(1, len(seqs) + 1))
        messages = Counter(
            event["msg"]["message"].split()[-1] for event in await storm.events(name) if event["msg"]["type"] == "user_message"
        )
        assert max(messages.values()) == 1
        assert {word for word, of in storm.acknowledged.items() if of == name} <= messages.keys()
        effects = Counter((work / "effects").read_text().split())
        assert max(effects.values()) == 1
        assert effects.keys() <= messages.keys()
        listed = await those.rest("y").get(f"/v1/conversations/{name}")
        assert (listed["state"], listed["questions"]) == ("idle", [])
        verified = await Program(those.servers["x"].home.path, those.folder).run_aside("verify", name)
        assert verified.code == 0, verified.err


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_is_lost_doubled_or_left_whoever_is_killed(tmp_path: Path) -> None:
    async with machines(tmp_path, answer, config={"understudy.cluster.lease_seconds": 20}) as those:
        await weathered(those, Storm.kill_one, KILLS)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_is_lost_doubled_or_left_whoever_stands_still_for_longer_than_its_lease(tmp_path: Path) -> None:
    async with machines(tmp_path, answer, config={"understudy.cluster.lease_seconds": SHORT_LEASE}) as those:
        await weathered(those, Storm.pause_one, PAUSES)
