"""Waiting for the log."""

from __future__ import annotations

import asyncio

import pytest

from understudy.engine.kept import Kept
from understudy.engine.on_disk import LogTold, on_disk
from understudy.errors import AgentError, StoreError


async def test_the_log_may_answer_after_whoever_waited_has_left() -> None:
    told: list[LogTold] = []
    waiting = asyncio.create_task(on_disk(told.append))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for outcome in (None, StoreError("full")):
        told[0](outcome)


async def test_it_raises_why_something_is_not_on_disk() -> None:
    with pytest.raises(StoreError, match="full"):
        await on_disk(lambda told: told(StoreError("full")))


async def test_all_who_ask_whether_something_is_durable_are_told() -> None:
    kept = Kept()
    heard: list[AgentError | None] = []
    kept.when_known(heard.append)
    waiting = asyncio.ensure_future(_wait(kept))
    await asyncio.sleep(0)
    kept.when_known(heard.append)
    assert not kept.failed
    reason = StoreError("full")
    kept.tell(reason)
    kept.when_known(heard.append)
    assert heard == [reason] * 3
    assert kept.failed
    with pytest.raises(StoreError, match="full"):
        await waiting


async def _wait(kept: Kept) -> None:
    await kept
