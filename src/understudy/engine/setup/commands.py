"""The sandbox and the tools, loaded while the model thinks or on first use, so that a server answers before it can run anything."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from understudy.engine.setup.turn_setup import TurnSetup
from understudy.protocol.choices import OutputStream
from understudy.tools.registry import load_tools

if TYPE_CHECKING:
    from understudy.sandbox.runner import Sandbox
    from understudy.sandbox.running import RunningCommand
    from understudy.sandbox.spec import Command, CommandResult, Containment, Temporary


class Commands:
    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._held: float | None = None  # when commands end unless the claim is renewed; None: no such limit

    def held_by(self, when_renewed: Callable[[Callable[[float], None]], None]) -> None:
        """End commands when the claim may have passed to another process, even while this process stands still."""
        if self._held is None:
            self._held = math.inf  # until the limit is known
            when_renewed(self._hold)

    def _hold(self, until: float) -> None:
        self._held = until
        if self._sandbox is not None:
            self._sandbox.hold(until)

    def warm(self) -> Iterator[None]:
        """Start the helper process and load what a tool call needs, while the model thinks. It yields between steps, so that others
        are served.
        """
        sandbox = self._ready()
        yield
        sandbox.warm()
        yield
        yield from load_tools()

    async def run(self, command: "Command", on_output: Callable[[OutputStream, bytes], None]) -> "CommandResult":
        return await self._ready().run(command, on_output)

    async def temporary(self, containment: "Containment", cwd: str) -> "Temporary":
        return await self._ready().temporary(containment, cwd)

    def covering(self, paths: Sequence[str]) -> "tuple[RunningCommand, ...]":
        return () if self._sandbox is None else self._sandbox.covering(paths)

    async def end_covering(self, paths: Sequence[str], why: str) -> None:
        if self._sandbox is not None:
            await self._sandbox.end_covering(paths, why)

    async def close(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()

    def _ready(self) -> "Sandbox":
        if self._sandbox is None:
            from understudy.sandbox.runner import Sandbox

            self._sandbox = Sandbox()
            if self._held is not None:
                self._sandbox.hold(self._held)
        return self._sandbox


logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.01
WAITS = 5  # steps to wait before beginning; not one longer time, because on a busy machine asking the model takes longer too
PAUSE_SECONDS = 0.002


class Warming:
    def __init__(self, loop: asyncio.AbstractEventLoop, commands: Commands) -> None:
        self._loop = loop
        self._commands = commands
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, setup: TurnSetup) -> None:
        """Begin once per process."""
        if self._timer is None:
            self._wait(setup, WAITS)

    def _wait(self, setup: TurnSetup, waits: int) -> None:
        if waits:
            self._timer = self._loop.call_later(WAIT_SECONDS, self._wait, setup, waits - 1)
        else:
            self._go_on(self._commands.warm(), setup)

    def _go_on(self, steps: Iterator[None], setup: TurnSetup) -> None:
        """One step at a time: the model may already be answering."""
        try:
            for _ in steps:
                self._timer = self._loop.call_later(PAUSE_SECONDS, self._go_on, steps, setup)
                return
        except (OSError, ImportError) as error:  # e.g. too few files or processes: the first tool call tries again and reports it
            logger.warning("what commands need cannot be loaded yet: %s", error)
            return
        setup.settings()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
