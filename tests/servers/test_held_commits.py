"""A turn that is over, with its end not on disk yet: whoever comes for its answer in that moment gets it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.e2e.scenes import text_of
from tests.support.holding_log import HoldingLog
from tests.support.server_here import ServerHere
from understudy.config.home import state_dir
from understudy.testing import HOLD, ScriptedModel, deltas

PINGS = 20


async def test_whoever_waits_for_a_turn_whose_end_is_being_written_gets_its_answer(tmp_path: Path) -> None:
    logs: list[HoldingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> HoldingLog:
        logs.append(HoldingLog(state_dir(home), loop))
        return logs[0]

    async with (
        ScriptedModel([deltas(["a", HOLD, "b"])]) as model,
        ServerHere(model.url, cwd=tmp_path, home=tmp_path / "home", open_log=open_log) as server,
    ):
        first = server.call_tool("codex", prompt="x")
        thread = (await server.event("session_configured"))["session_id"]
        await server.event("agent_message_delta")
        logs[0].holds = True
        model.release()
        assert await model.outcome(1) == "answered"
        await logs[0].holding.wait()
        for _ in range(PINGS):
            assert await server.request("ping") == {}
        second = server.call_tool("codex-reply", threadId=thread)
        for _ in range(PINGS):
            assert await server.request("ping") == {}
        assert not first.done
        assert not second.done, "its end is not on disk"
        logs[0].let_go()
        assert [text_of(await first), text_of(await second)] == ["ab", "ab"]
