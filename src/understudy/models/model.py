"""What a model is asked and what comes back, in order: all that can be asked.

Also what carries the requests: HTTP, HTTP that is recorded, or a recording that is replayed.
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
    grammar: str | None = None  # Lark, for models that write the tool's only argument (`input`) as free text in this grammar


class Prompt(msgspec.Struct, frozen=True):
    instructions: str
    items: Sequence[Item]
    tools: Sequence[ToolSpec]
    conversation_id: str
    request_index: int | None = None  # earlier requests of this conversation; only the scripted model uses it
    may_call: bool = True  # False: the answer must be words
    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    may_retry: bool = True  # False: the caller has a fallback, so a failed request is not repeated


class ModelSettings(msgspec.Struct, frozen=True):
    model: str
    reasoning_effort: str | None = None
    effort_is_chosen: bool = False  # chosen by the user: then even an unknown model is asked for it
    reasoning_summary: str | None = None
    supports_reasoning_summaries: bool | None = None  # None: decided by the model's name
    verbosity: str | None = None
    store: bool = False  # whether the provider may keep the response
    originator: str = "understudy"
    show_raw: bool = False  # pass raw reasoning on as it arrives
    script: Path | None = None  # the file for the scripted model, instead of its own
    record: Path | None = None  # the file in which every exchange is recorded
    replay: Path | None = None  # the recording to replay
    roots: tuple[str, ...] = ()  # where commands may write, in case the recording is there
    places: Mapping[str, str] = {}  # folders that differ from run to run, by purpose; a recording contains the purpose instead


class ItemDone(msgspec.Struct, frozen=True):
    item: ModelItem


class Counted(msgspec.Struct, frozen=True):
    """Tokens of an answer that will not be complete; they are paid for all the same. The failure follows."""

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

    Leaving before the end stops it at once. A subclass says how to get more of it.
    """

    def __init__(self) -> None:
        self._ready: deque[ModelEvent] = deque()
        self._failure: ModelError | None = None
        self._ended = False
        self.in_one_go = False  # the caller wants all that has come without a pause

    async def _fill(self, ready: deque[ModelEvent]) -> bool:
        """Append what has come, or wait for more; False after the last event. May append events and then raise ModelError."""
        raise NotImplementedError

    async def _stop(self) -> None:
        """Release everything. Called once, at the end or before it."""

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
            pass  # the caller does not need the rest
        return found

    async def batch(self) -> list[ModelEvent]:
        """All events that have come, at least one; empty after the end. Cheaper than one by one when events come in bursts."""
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
        except ModelError as failure:  # report what came before it first
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
    """`read_text`, for exchanges that are not read from their own connection."""

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
