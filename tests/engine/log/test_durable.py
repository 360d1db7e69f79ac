"""Waiting until something is durable."""

from __future__ import annotations

import asyncio

import pytest

from understudy.engine.log.durable import Durable, until_durable
from understudy.errors import AgentError, StoreError
from understudy.store.log import Committed


async def test_the_log_may_answer_after_whoever_waited_has_left() -> None:
    told: list[Committed] = []
    waiting = asyncio.create_task(until_durable(told.append))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for outcome in (None, StoreError("full")):
        told[0](outcome)


async def test_it_raises_why_something_is_not_on_disk() -> None:
    with pytest.raises(StoreError, match="full"):
        await until_durable(lambda told: told(StoreError("full")))


async def test_all_who_ask_whether_something_is_durable_are_told() -> None:
    durable = Durable()
    heard: list[AgentError | None] = []
    durable.when_known(heard.append)
    waiting = asyncio.ensure_future(_wait(durable))
    await asyncio.sleep(0)
    durable.when_known(heard.append)
    assert not durable.failed
    reason = StoreError("full")
    durable.tell(reason)
    durable.when_known(heard.append)
    assert heard == [reason] * 3
    assert durable.failed
    with pytest.raises(StoreError, match="full"):
        await waiting


async def _wait(durable: Durable) -> None:
    await durable
