"""Conversations in memory: the last ones are kept, and one that is let go leaves nothing behind."""

import asyncio
import gc
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from understudy.engine import engine as engine_module
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides
from understudy.testing.waiting import WAIT_SECONDS


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    (tmp_path / "config.toml").write_text('model_provider = "scripted"\n')
    engine = Engine(env={**os.environ, "CODEX_HOME": str(tmp_path)})
    yield engine
    async with asyncio.timeout(WAIT_SECONDS):
        await engine.close()


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def a_turn(engine: Engine) -> ConversationId:
    handle = await engine.create(LOCAL, Overrides())
    await handle.submit(handle.message(Message("user", (InputText("hello"),))))
    conversation = handle._conversation  # pyright: ignore[reportPrivateUsage]
    over = asyncio.Event()
    async with asyncio.timeout(WAIT_SECONDS):
        await conversation.running.ended()
        conversation.tail.when_committed(over.set)
        await over.wait()
    return handle.id


@pytest.mark.usefixtures("no_collector")
async def test_a_conversation_beyond_those_that_are_kept_is_freed_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "MOST_IDLE", 3)
    kept: list[weakref.ref[object]] = []
    for _ in range(5):
        handle = await engine.find(LOCAL, await a_turn(engine))
        kept.append(weakref.ref(handle._conversation))  # pyright: ignore[reportPrivateUsage]
        del handle
    assert [one() is not None for one in kept] == [False, False, True, True, True]
