"""Commands that are run by nobody: they print, take their time, fail and die as their seed has it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.history import History
from understudy.engine.setup.commands import Commands
from understudy.errors import SandboxError
from understudy.protocol.choices import OutputStream
from understudy.sandbox.spec import Command, CommandResult, Containment, Temporary

if TYPE_CHECKING:
    from understudy.sandbox.running import RunningCommand


class SimulatedCommands(Commands):
    """The sandbox of one process. `longest`: seconds that a command may take."""

    def __init__(self, random: Random, history: History, process: str, longest: float = 3.0) -> None:
        super().__init__()
        self.longest = longest
        self._random = random
        self._history = history
        self._process = process

    def warm(self) -> Iterator[None]:
        yield

    async def run(self, command: Command, on_output: Callable[[OutputStream, bytes], None]) -> CommandResult:
        draw = self._random.random
        began = asyncio.get_running_loop().time()
        if draw() < 0.3:
            await asyncio.sleep(draw() * 0.02)  # the cell is made
        if command.clearance is not None:
            await command.clearance()
        self._history.note("act", what=command.argv[-1], process=self._process)
        try:
            for number in range(int(draw() * 4)):
                if draw() < 0.7:
                    await asyncio.sleep(draw() ** 3 * self.longest)
                on_output("stdout" if draw() < 0.7 else "stderr", b"line %d of %s\n" % (number, command.argv[-1].encode()))
            if draw() < 0.05:
                raise SandboxError("the helper process has died")
        finally:
            self._history.note("act_over", what=command.argv[-1], process=self._process)
        exit_code = 0 if draw() < 0.8 else 1
        return CommandResult(exit_code, asyncio.get_running_loop().time() - began)

    async def temporary(self, containment: Containment, cwd: str) -> Temporary:
        return Temporary(containment.private_tmp or "", "/tmp")

    def covering(self, paths: Sequence[str]) -> tuple[RunningCommand, ...]:
        return ()

    async def end_covering(self, paths: Sequence[str], why: str) -> None:
        pass

    async def close(self) -> None:
        pass
