"""How many turns a caller may have at once: one more is refused with nothing recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.engine.services.turns_at_work import TurnsAtWork
from understudy.errors import TooManyTurns
from understudy.protocol.callers import LOCAL, Caller
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides
from understudy.testing import HOLD, ScriptedModel, deltas, provider_settings, say
from understudy.testing.waiting import WAIT_SECONDS

ANN, BOB = Caller("ann"), Caller("bob")
GO = Message("user", (InputText("go"),))


class Scene:
    def __init__(self, engine: Engine, model: ScriptedModel, folder: Path) -> None:
        self.engine, self.model, self._folder = engine, model, folder

    async def conversation(self, caller: Caller) -> Handle:
        return await self.engine.create(caller, Overrides(cwd=str(self._folder)))

    async def idle(self, handle: Handle) -> None:
        """Until no turn runs, and all of it is on disk."""
        async with asyncio.timeout(WAIT_SECONDS):
            while handle.facts.turn is not None:
                await handle.committed()
                await asyncio.sleep(0.01)
            await handle.durable()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    (tmp_path / "home").mkdir()
    async with ScriptedModel([deltas(["one", HOLD]), say("two"), say("three"), say("four")]) as model:
        env = {**os.environ, "CODEX_HOME": str(tmp_path / "home")}
        engine = Engine(cli=list(provider_settings(model.url).items()), env=env)
        engine.at_work = TurnsAtWork(1)
        yield Scene(engine, model, tmp_path)
        async with asyncio.timeout(WAIT_SECONDS):
            await engine.close()


async def test_a_turn_too_many_is_refused_and_nothing_of_it_is_recorded(scene: Scene) -> None:
    first, second = await scene.conversation(ANN), await scene.conversation(ANN)
    others = await scene.conversation(BOB), await scene.conversation(LOCAL)
    await first.submit(first.message(GO))
    await scene.model.next_request(1)
    with pytest.raises(TooManyTurns, match="1 are at work, and 1 may be"):
        await second.submit(second.message(GO))
    assert (second.facts.turn, second.facts.last_seq) == (None, 1)
    for other in others:
        assert (await other.submit(other.message(GO))).turn == "1"
        await scene.idle(other)
    scene.model.release()
    await scene.idle(first)
    assert (await second.submit(second.message(GO))).turn == "1"
    await scene.idle(second)
