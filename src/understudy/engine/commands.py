"""The sandbox and the tools, loaded when first needed: a server answers before it can run anything."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from understudy.protocol.choices import OutputStream
from understudy.tools.registry import load_tools

if TYPE_CHECKING:
    from understudy.sandbox.runner import Sandbox
    from understudy.sandbox.running import RunningCommand
    from understudy.sandbox.spec import Command, CommandResult


class Commands:
    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    def warm(self) -> Iterator[None]:
        """Start the helper process, and load what a tool call needs, while the model thinks: step by step, for others wait too."""
        sandbox = self._ready()
        yield
        sandbox.warm()
        yield
        yield from load_tools()

    async def run(self, command: "Command", on_output: Callable[[OutputStream, bytes], None]) -> "CommandResult":
        return await self._ready().run(command, on_output)

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
        return self._sandbox
