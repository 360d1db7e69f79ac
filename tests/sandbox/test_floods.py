"""A command that floods us: read as fast as it comes while somebody waits for it, and for little of our time otherwise."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.stage import BOUND, ENV
from understudy.protocol.choices import OutputStream
from understudy.sandbox import Command, Sandbox
from understudy.sandbox.control import Control

_CHUNK_SECONDS = 0.001  # of work with each piece of output
_NOT_A_REST = 5.0  # the waits of the tests themselves are longer


class Work:
    """Takes output, and is long about it."""

    def __init__(self) -> None:
        self.seconds = 0.0  # of the processor's time
        self.bytes = 0
        self.much = asyncio.Event()

    def __call__(self, stream: OutputStream, chunk: bytes) -> None:
        began = time.thread_time()
        while time.thread_time() - began < _CHUNK_SECONDS:
            pass
        self.seconds += time.thread_time() - began
        self.bytes += len(chunk)
        if self.bytes > 10_000_000:
            self.much.set()


class Rests:
    """The timers set meanwhile."""

    def __init__(self) -> None:
        self.handles: list[asyncio.TimerHandle] = []
        self.seconds = 0.0
        self.any = asyncio.Event()

    def note(self, delay: float, handle: asyncio.TimerHandle) -> None:
        if delay < _NOT_A_REST:
            self.handles.append(handle)
            self.seconds += delay
            self.any.set()


@contextmanager
def rests() -> Generator[Rests]:
    loop = asyncio.get_running_loop()
    set_timer, noted = loop.call_later, Rests()

    def call_later(delay: float, *work: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle = set_timer(delay, *work, context=context)
        noted.note(delay, handle)
        return handle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_later", call_later)
        yield noted


@pytest.fixture
async def sandbox() -> AsyncGenerator[Sandbox]:
    made = Sandbox()
    try:
        yield made
    finally:
        await made.close()


def flood(megabytes: int, cwd: Path, control: Control | None, *, both: bool = False) -> Command:
    line = f"yes 0123456789abcdef | head -c {megabytes * 1_000_000}"
    return Command(("sh", "-c", f"({line}) >&2 & {line}; wait" if both else line), str(cwd), ENV, None, control=control)


@pytest.mark.parametrize("terminal", [False, True], ids=["pipes", "terminal"])
async def test_what_is_awaited_is_read_without_a_rest(sandbox: Sandbox, tmp_path: Path, terminal: bool) -> None:
    control, work = Control(terminal=terminal), Work()
    with rests() as taken, control.awaited():
        await asyncio.wait_for(sandbox.run(flood(2, tmp_path, control), work), BOUND)
    assert work.bytes >= 2_000_000
    assert taken.handles == []


@pytest.mark.parametrize("both", [False, True], ids=["one stream", "both streams"])
async def test_what_nobody_waits_for_takes_a_fifth_of_the_time(sandbox: Sandbox, tmp_path: Path, both: bool) -> None:
    work = Work()
    began = time.monotonic()
    with rests() as taken:
        await asyncio.wait_for(sandbox.run(flood(3, tmp_path, Control(), both=both), work), BOUND)
    assert work.bytes == (6_000_000 if both else 3_000_000)
    last = 1 << 20  # what is left in a pipe at the end is read at once
    assert taken.seconds >= 3.5 * work.seconds * (1 - (1 + both) * last / work.bytes)
    assert time.monotonic() - began >= 2 * work.seconds


async def test_many_of_them_together_take_no_more_than_one(sandbox: Sandbox, tmp_path: Path) -> None:
    work = [Work() for _ in range(6)]
    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for each in work:
            tasks.create_task(sandbox.run(flood(2, tmp_path, Control()), each))
    assert sum(each.bytes for each in work) == 12_000_000
    assert time.monotonic() - began >= 2 * sum(each.seconds for each in work)


async def test_whoever_begins_to_wait_ends_the_rest(sandbox: Sandbox, tmp_path: Path) -> None:
    control, work = Control(), Work()
    with rests() as taken:
        running = asyncio.create_task(sandbox.run(flood(20, tmp_path, control), work))
        await asyncio.wait_for(taken.any.wait(), BOUND)
        with control.awaited():
            assert taken.handles[-1].cancelled()
            before = len(taken.handles)
            await asyncio.wait_for(work.much.wait(), BOUND)
            assert len(taken.handles) == before
        taken.any.clear()
        await asyncio.wait_for(taken.any.wait(), BOUND)  # nobody waits any more
        running.cancel()
        await asyncio.wait([running], timeout=BOUND)


async def test_a_command_that_ends_or_is_ended_while_it_rests_is_told_whole(sandbox: Sandbox, tmp_path: Path) -> None:
    for stop in (False, True):
        control, work = Control(), Work()
        with rests() as taken:
            running = asyncio.create_task(sandbox.run(flood(1 if not stop else 500, tmp_path, control), work))
            await asyncio.wait_for(taken.any.wait(), BOUND)
            if stop:
                control.stop()
            result = await asyncio.wait_for(running, BOUND)
            with control.awaited() if stop else nullcontext():  # it is over: there is nothing to wake
                assert result.exit_code == (143 if stop else 0)
    assert os.listdir(tmp_path) == []
