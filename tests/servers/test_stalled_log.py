"""A log of which every answer takes two seconds, in the real server: pings are answered meanwhile, and no call is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.scenes import text_of, thread_of
from tests.e2e.talking import listed
from tests.support.obliging_model import ObligingModel
from tests.support.server_here import ServerHere
from tests.support.slow_log import SlowLog
from understudy.config.home import state_dir

STALL_SECONDS = 2.0
PINGS = 20


class StalledLog(SlowLog):
    stalls = False

    async def _slowly(self) -> None:
        if self.stalls:
            await asyncio.sleep(STALL_SECONDS)


@pytest.mark.slow
async def test_a_log_that_takes_two_seconds_for_each_answer_holds_up_nobody_and_loses_nothing(tmp_path: Path) -> None:
    logs: list[StalledLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> StalledLog:
        logs.append(StalledLog(state_dir(home), loop))
        return logs[0]

    async with ObligingModel() as model, ServerHere(model.url, cwd=tmp_path, home=tmp_path / "home", open_log=open_log) as server:
        threads = [thread_of(await server.call_tool("codex", prompt="0")) for _ in range(3)]
        logs[0].stalls = True
        calls = [server.call_tool("codex-reply", threadId=thread, prompt="1") for thread in threads]
        calls.append(server.call_tool("codex", prompt="1"))
        for _ in range(PINGS):
            assert await server.request("ping") == {}
        assert not any(call.done for call in calls[:3]), "they wait for the log"
        assert [text_of(await call) for call in calls] == ["ok: 1"] * 4
        second = [server.call_tool("codex-reply", threadId=thread, prompt=text) for thread in threads for text in ("2", "3")]
        assert {text_of(await call) for call in second} <= {"ok: 2", "ok: 3"}, "one that joins the other's turn has its answer"
        logs[0].stalls = False
        assert len(await listed(server)) == 4
