"""Conversations in memory: the last ones are kept, and one that is let go leaves nothing behind."""

import asyncio
import gc
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from understudy.engine import remembered
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


async def a_turn(engine: Engine, text: str = "hello") -> ConversationId:
    handle = await engine.create(LOCAL, Overrides())
    await handle.submit(handle.message(Message("user", (InputText(text),))))
    conversation = handle._conversation  # pyright: ignore[reportPrivateUsage]
    over = asyncio.Event()
    async with asyncio.timeout(WAIT_SECONDS):
        await conversation.running.ended()
        conversation.tail.when_committed(over.set)
        await over.wait()
    return handle.id


def have_room_for(number: int, monkeypatch: pytest.MonkeyPatch, *, busy_seconds: float = 0.0) -> None:
    """For so many conversations of one turn; what was used longer ago may leave memory."""
    monkeypatch.setattr(remembered, "BYTES_OF_A_BYTE", 0)
    monkeypatch.setattr(remembered, "MOST_BYTES", number * remembered.BYTES_OF_ONE)
    monkeypatch.setattr(remembered, "BUSY_SECONDS", busy_seconds)


@pytest.mark.usefixtures("no_collector")
async def test_a_conversation_beyond_those_that_are_kept_is_freed_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    have_room_for(3, monkeypatch)
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
    have_room_for(0, monkeypatch)
    submitting = asyncio.ensure_future(handle.submit(op))
    await asyncio.sleep(0)  # from here on it waits for the log
    assert not conversation.is_quiet
    engine._remembered.note_used(conversation)  # pyright: ignore[reportPrivateUsage]  # as when any other is opened
    async with asyncio.timeout(WAIT_SECONDS):
        await submitting
    assert conversation.is_quiet


async def test_those_that_were_used_a_moment_ago_stay_in_memory_however_many_they_are(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_room_for(1, monkeypatch, busy_seconds=WAIT_SECONDS)
    names = [await a_turn(engine) for _ in range(4)]
    assert list(engine._conversations) == names  # pyright: ignore[reportPrivateUsage]


async def test_a_long_conversation_counts_as_much_as_many_short_ones(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_BYTES", 6 * remembered.BYTES_OF_ONE)
    monkeypatch.setattr(remembered, "BUSY_SECONDS", 1e-9)  # the one that is used now stays
    short = [await a_turn(engine) for _ in range(2)]
    long = await a_turn(engine, "word " * 20_000)
    conversations = engine._conversations  # pyright: ignore[reportPrivateUsage]
    assert list(conversations) == [*short, long]
    written = conversations[long].tail.size
    await engine.find(LOCAL, long)  # its turn has made it larger than it was
    assert list(conversations) == [long]
    await engine.find(LOCAL, short[0])
    await engine.find(LOCAL, short[1])
    assert list(conversations) == short, "the long one was used before them"
    await engine.find(LOCAL, long)
    assert conversations[long].tail.size == pytest.approx(written, rel=0.2), "read from the store, it counts alike"


async def test_all_that_are_asked_for_at_once_are_read_though_there_is_no_room_for_them(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_room_for(0, monkeypatch, busy_seconds=1e-9)
    names = [await a_turn(engine) for _ in range(12)]

    async def provider(name: ConversationId) -> str:
        return (await engine.find(LOCAL, name, to_send=True)).setup().config.model_provider

    for _ in range(2):
        async with asyncio.timeout(WAIT_SECONDS):
            assert await asyncio.gather(*map(provider, names)) == ["scripted"] * len(names)
