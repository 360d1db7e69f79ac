"""One at a time for each key, in the order in which they came."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.servers.in_order import InOrder
from understudy.testing.waiting import WAIT_SECONDS


async def test_whoever_comes_alone_does_not_wait() -> None:
    order = InOrder()
    for key in ("a", "b"):
        assert order.enter(key) is None
    order.leave("a")
    assert order.enter("a") is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.booleans()), max_size=12))
@settings(deadline=None, max_examples=100)
def test_all_who_stay_get_in_one_by_one_in_their_order(visits: list[tuple[str, int, bool]]) -> None:
    async def play() -> None:
        order, inside, seen = InOrder(), set[str](), list[tuple[str, int]]()

        async def visit(key: str, number: int, steps: int) -> None:
            waiting = order.enter(key)
            if waiting is not None:
                await waiting
            try:
                assert key not in inside
                inside.add(key)
                seen.append((key, number))
                for _ in range(steps):
                    await asyncio.sleep(0)
            finally:
                inside.discard(key)
                order.leave(key)

        tasks = [asyncio.create_task(visit(key, number, steps)) for number, (key, steps, _) in enumerate(visits)]
        await asyncio.sleep(0)
        for task, (_, steps, leaves) in zip(tasks, visits, strict=True):
            if leaves:
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*tasks, return_exceptions=True)
        for key in "ab":
            numbers = [number for one, number in seen if one == key]
            assert numbers == sorted(numbers)
        stayed = {number for number, (_, _, leaves) in enumerate(visits) if not leaves}
        assert stayed <= {number for _, number in seen}
        assert order.enter("a") is None, "nobody is left in it"

    asyncio.run(play())
