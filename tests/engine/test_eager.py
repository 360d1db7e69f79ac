"""A coroutine that is run eagerly does what it would do in a task, and has no task while it does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from understudy.engine.steps import Done, EagerTasks
from understudy.testing.waiting import WAIT_SECONDS


def run(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | Done[Any]:
    return EagerTasks(asyncio.get_running_loop()).run(coroutine)


async def value(of: object) -> object:
    return of


async def broken() -> None:
    raise ValueError("broken")


async def waiting_for(future: asyncio.Future[str], steps: list[str]) -> str:
    steps.append("began")
    try:
        first = await future
        steps.append(first)
        await asyncio.sleep(0)
        return f"{first} and more"
    finally:
        steps.append("left")


async def test_what_does_not_wait_is_done_at_once_without_a_task() -> None:
    tasks = asyncio.all_tasks()
    for given in ("something", None, 0):
        outcome = run(value(given))
        assert isinstance(outcome, Done)
        assert outcome.result() == given
    assert asyncio.all_tasks() == tasks


async def test_what_it_raises_is_raised_by_whoever_asks_for_the_result() -> None:
    outcome = run(broken())
    assert isinstance(outcome, Done)
    with pytest.raises(ValueError, match="broken"):
        outcome.result()


async def test_what_waits_has_begun_at_once_and_goes_on_in_a_task() -> None:
    future = asyncio.get_running_loop().create_future()
    steps: list[str] = []
    task = run(waiting_for(future, steps))
    assert isinstance(task, asyncio.Task)
    assert steps == ["began"]
    future.set_result("heard")
    assert await asyncio.wait_for(task, WAIT_SECONDS) == "heard and more"
    assert steps == ["began", "heard", "left"]


async def test_a_bare_yield_to_the_loop_counts_as_waiting() -> None:
    async def once_round() -> str:
        await asyncio.sleep(0)
        return "round"

    task = run(once_round())
    assert isinstance(task, asyncio.Task)
    assert await asyncio.wait_for(task, WAIT_SECONDS) == "round"


async def test_the_failure_of_what_it_waits_for_reaches_it() -> None:
    future = asyncio.get_running_loop().create_future()
    steps: list[str] = []
    task = run(waiting_for(future, steps))
    future.set_exception(ValueError("broken"))
    assert isinstance(task, asyncio.Task)
    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(task, WAIT_SECONDS)
    assert steps == ["began", "left"]


@pytest.mark.parametrize("first_step_taken", [False, True])
async def test_cancelling_the_task_cancels_what_it_waits_for_and_unwinds_it(first_step_taken: bool) -> None:
    future = asyncio.get_running_loop().create_future()
    steps: list[str] = []
    task = run(waiting_for(future, steps))
    assert isinstance(task, asyncio.Task)
    if first_step_taken:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, WAIT_SECONDS)
    assert steps == ["began", "left"]
    assert future.cancelled() is first_step_taken


async def test_a_cancellation_that_is_caught_lets_it_go_on() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    task = run(stubborn())
    assert isinstance(task, asyncio.Task)
    await asyncio.sleep(0)
    task.cancel()
    assert await asyncio.wait_for(task, WAIT_SECONDS) == "went on"


async def test_many_may_wait_for_the_same_future_in_tasks_and_eagerly() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()

    async def hear() -> str:
        return await future

    plain = loop.create_task(hear())
    outcomes = [run(hear()) for _ in range(3)]
    await asyncio.sleep(0)
    outcomes.append(run(hear()))
    future.set_result("heard")
    tasks = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Task)]
    assert await asyncio.wait_for(asyncio.gather(plain, *tasks), WAIT_SECONDS) == ["heard"] * 5


async def test_a_task_whose_owner_forgets_it_is_kept_until_it_is_done() -> None:
    future = asyncio.get_running_loop().create_future()
    steps: list[str] = []
    run(waiting_for(future, steps))
    import gc

    gc.collect()
    future.set_result("heard")
    for _ in range(5):
        await asyncio.sleep(0)
    assert steps == ["began", "heard", "left"]
