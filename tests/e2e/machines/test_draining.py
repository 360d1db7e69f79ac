"""Machines that are told to end while they are at work: they end in time, and whoever waits is answered."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.support.machines import content, machines, thread
from understudy.testing import HOLD, ReceivedRequest, call, deltas
from understudy.testing.script import Entry

SECONDS = 10.0


@pytest.mark.slow
async def test_a_worker_that_was_drained_is_not_drained_a_second_time_when_it_is_told_to_end(tmp_path: Path) -> None:
    stubborn = call("shell", command=["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"], timeout_ms=600_000)
    config = {"understudy.serve.drain_seconds": SECONDS}

    def answer(request: ReceivedRequest) -> Entry:
        return stubborn if "stubborn" in str(request.body["messages"][-1]) else deltas(["half ", HOLD])

    async with machines(tmp_path, answer, workers=("a",), config=config) as those:
        x, y, at = await those.client("x"), await those.client("y"), Program(those.servers["x"].home.path, tmp_path)
        waiting = [
            asyncio.create_task(client.result("codex", {"prompt": prompt, "cwd": str(those.work(prompt))}))
            for client, prompt in ((x, "talk"), (y, "stubborn"))
        ]
        await those.until("SELECT count(*) FROM claims", 2)
        drained = await at.run_aside("workers", "drain", "a")
        assert (drained.code, "2 conversations still at work" in drained.out) == (1, True)
        told = time.monotonic()
        assert await those.servers["a"].stop() == 0
        assert time.monotonic() - told < SECONDS
        assert [content(each) for each in await asyncio.gather(*waiting)] == ["Turn interrupted"] * 2
        assert those.rows("SELECT count(*) FROM claims") == [(0,)]


@pytest.mark.slow
async def test_a_front_end_that_is_told_to_end_answers_its_calls_and_the_turn_goes_on(tmp_path: Path) -> None:
    config = {"understudy.serve.drain_seconds": 0.5}
    async with machines(tmp_path, [deltas(["half ", HOLD, "whole"])], workers=("a",), config=config) as those:
        x, y = await those.client("x"), await those.client("y")
        begun = asyncio.create_task(x.result("codex", {"prompt": "begin", "cwd": str(those.work("w"))}))
        await those.model.next_request(1)
        assert await those.servers["x"].stop() == 0
        result = await begun
        assert "continue with codex-reply" in content(result)
        those.model.release()
        assert content(await y.result("codex-reply", {"threadId": thread(result)})) == "half whole"
