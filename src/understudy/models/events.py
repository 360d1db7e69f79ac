"""What comes back from a model, in order, and the shape of everything that can be asked.

An answer is deltas while something is being written, `ItemDone` for each finished piece, and one `Completed` at its end.
An answer that does not end in `Completed` raises ModelError; the items before it are whole all the same.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Protocol, Self

import msgspec

from understudy.errors import ModelError
from understudy.models.prompt import Prompt
from understudy.protocol.items import ModelItem, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta


class ItemDone(msgspec.Struct, frozen=True):
    item: ModelItem


class Counted(msgspec.Struct, frozen=True):
    """Tokens of an answer that will not be complete: they are paid for all the same. The failure follows."""

    usage: Usage


class Completed(msgspec.Struct, frozen=True):
    usage: Usage | None


ModelEvent = TextDelta | ReasoningDelta | ItemDone | Counted | Completed


class Model(Protocol):
    def stream(self, prompt: Prompt) -> "Answer":
        """Nothing is sent before the answer is first read."""
        ...


class Answer:
    """A running answer: `async with model.stream(prompt) as answer: async for event in answer: …`.

    Leaving before the end stops it at once. A subclass says how more of it is had.
    """

    def __init__(self) -> None:
        self._ready: deque[ModelEvent] = deque()
        self._failure: ModelError | None = None
        self._ended = False
        self.in_one_go = False  # what has come is wanted without a pause

    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        """Append what has come since, waiting if that is nothing; False after the last. May raise ModelError having appended."""
        raise NotImplementedError

    async def _stop(self) -> None:
        """Let go of everything. Called once, after the end or instead of it."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelEvent:
        while not self._ready:
            if not await self._more():
                raise StopAsyncIteration
        return self._ready.popleft()

    async def arrived(self) -> list[ModelEvent]:
        """What has come by now, without waiting for more."""
        found: list[ModelEvent] = []
        self.in_one_go = True
        try:
            async with asyncio.timeout(0):
                while more := await self.batch():
                    found += more
        except (TimeoutError, ModelError):
            pass  # whoever asks has no use for the rest
        return found

    async def batch(self) -> list[ModelEvent]:
        """Everything that has come, at least one event; empty after the end. Cheaper than one by one when events come in bursts."""
        while not self._ready:
            if not await self._more():
                return []
        events = list(self._ready)
        self._ready.clear()
        return events

    async def _more(self) -> bool:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._ended:
            return False
        try:
            self._ended = not await self._fill(self._ready)
        except ModelError as failure:  # what came before it is told first
            self._failure = failure
            self._ended = True
        except BaseException:
            await self.aclose()
            raise
        if self._ended:
            await self._stop()
        return True

    async def aclose(self) -> None:
        if not self._ended:
            self._ended = True
            await self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
