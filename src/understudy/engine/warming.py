"""Loading what commands need while the model thinks: ready by the time it has answered, and not in the way of asking it."""

import asyncio
import logging
from collections.abc import Iterator

from understudy.engine.commands import Commands
from understudy.engine.turn_setup import TurnSetup

logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.01
WAITS = 5  # before it begins; waits and not one longer time, because asking a model takes longer on a busy machine
PAUSE_SECONDS = 0.002


class Warming:
    def __init__(self, loop: asyncio.AbstractEventLoop, commands: Commands) -> None:
        self._loop = loop
        self._commands = commands
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, setup: TurnSetup) -> None:
        """Once in a process."""
        if self._timer is None:
            self._wait(setup, WAITS)

    def _wait(self, setup: TurnSetup, waits: int) -> None:
        if waits:
            self._timer = self._loop.call_later(WAIT_SECONDS, self._wait, setup, waits - 1)
        else:
            self._go_on(self._commands.warm(), setup)

    def _go_on(self, steps: Iterator[None], setup: TurnSetup) -> None:
        """A step at a time: the model may be speaking already."""
        try:
            for _ in steps:
                self._timer = self._loop.call_later(PAUSE_SECONDS, self._go_on, steps, setup)
                return
        except (OSError, ImportError) as error:  # too few files or processes, say: whoever needs it tries again, and is told
            logger.warning("what commands need cannot be loaded yet: %s", error)
            return
        setup.settings()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
