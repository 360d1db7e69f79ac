"""What a model is asked and what comes back, in order: the shape of everything that can be asked.

Also what the requests of a model go through: HTTP as it is, HTTP that is written down, or a file that is played.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from understudy.errors import ModelError
from understudy.net import HttpFailure, Url
from understudy.protocol.items import Item, ModelItem, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta


class ToolSpec(msgspec.Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, Any]  # JSON schema
    strict: bool = False
    grammar: str | None = None  # Lark, for models that write the tool's only argument (`input`) as free text after it


class Prompt(msgspec.Struct, frozen=True):
    instructions: str
    items: Sequence[Item]
    tools: Sequence[ToolSpec]
    conversation_id: str
    request_index: int | None = None  # requests this conversation has made before; only the scripted model wants to know
    may_call: bool = True  # False: an answer in words is wanted
    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    may_retry: bool = True  # False: there is something to fall back on, so a request that fails is not put again


class ModelSettings(msgspec.Struct, frozen=True):
    model: str
    reasoning_effort: str | None = None
    effort_is_chosen: bool = False  # by the user: a model that nobody here knows is asked for it, too
    reasoning_summary: str | None = None
    supports_reasoning_summaries: bool | None = None  # None: by the model's name
    verbosity: str | None = None
    store: bool = False  # whether the provider may keep the response
    originator: str = "understudy"
    show_raw: bool = False  # pass raw reasoning on as it arrives
    script: Path | None = None  # what the scripted model plays, instead of the one it has
    record: Path | None = None  # where every exchange is written to
    replay: Path | None = None  # the recording that is played
    roots: tuple[str, ...] = ()  # where commands may write, for a recording that lies there
    places: Mapping[str, str] = {}  # folders that differ from run to run, by what they are for; a recording names them


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


class BegunAnswer(Protocol):
    """An answer whose head has come; see `http.response`."""

    @property
    def status(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def read(self, seconds: float) -> bytes: ...
    async def read_text(self, seconds: float, limit: int) -> str: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Transport(Protocol):
    def post(
        self, url: Url, headers: Sequence[tuple[str, str]], body: Sequence[bytes], *, seconds: float
    ) -> Coroutine[Any, Any, BegunAnswer]:
        """Raises HttpFailure."""
        ...


class ReadsText:
    """`read_text`, for exchanges that are not read from a connection of their own."""

    async def read(self, seconds: float) -> bytes:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    async def read_text(self, seconds: float, limit: int) -> str:
        pieces: list[bytes] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while sum(map(len, pieces)) < limit and (piece := await self.read(max(deadline - loop.time(), 0.0))):
                pieces.append(piece)
        except HttpFailure:
            self.abort()
        else:
            self.finish()
        return b"".join(pieces)[:limit].decode("utf-8", "replace")
