"""The time that a budget leaves for an answer: its own end is told apart from a time-out of the network."""

import asyncio
from collections import deque

import pytest

from understudy.engine.turn.turn_budget import listen_within
from understudy.errors import OutOfTime
from understudy.models.model import Answer, ModelEvent
from understudy.protocol.records import TextDelta


class Silent(Answer):
    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        await asyncio.Event().wait()
        return False


class NetworkTimesOut(Answer):
    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        raise TimeoutError("the network's own")


class Speaks(Answer):
    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        ready.append(TextDelta("hello"))
        return True


async def test_an_answer_that_takes_longer_than_the_budget_allows_is_out_of_time() -> None:
    with pytest.raises(OutOfTime):
        await listen_within(0.01, Silent())


async def test_a_time_out_of_the_network_is_not_taken_for_the_end_of_the_budget() -> None:
    with pytest.raises(TimeoutError, match="the network's own"):
        await listen_within(60, NetworkTimesOut())


async def test_an_answer_in_time_is_given() -> None:
    assert await listen_within(60, Speaks()) == [TextDelta("hello")]
