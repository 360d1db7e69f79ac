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
from understudy.protocol.ops import Archive, Delete
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


@pytest.mark.parametrize("op", [Archive(archived=True), Delete()])
async def test_a_conversation_stays_in_memory_while_it_is_put_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, op: Archive | Delete
) -> None:
    handle = await engine.find(LOCAL, await a_turn(engine))
    conversation = handle._conversation  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(engine_module, "MOST_IDLE", 0)
    submitting = asyncio.ensure_future(handle.submit(op))
    await asyncio.sleep(0)  # from here on it waits for the log
    assert not conversation.is_quiet
    engine._remember(conversation)  # pyright: ignore[reportPrivateUsage]  # as when any other is opened
    async with asyncio.timeout(WAIT_SECONDS):
        await submitting
    assert conversation.is_quiet
