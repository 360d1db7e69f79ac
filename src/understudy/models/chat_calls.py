"""The tool calls of one Chat Completions answer, put together from the fragments they come in.

Which call a fragment belongs to is looked up, never searched for: an answer may hold thousands.
"""

import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import msgspec

from understudy.models.limits import Sizes
from understudy.models.mending import mended, whole
from understudy.models.wire import new_call_id
from understudy.protocol.items import FunctionCall

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class FunctionDelta(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None  # a string; from some servers an object


class CallDelta(msgspec.Struct, gc=False):
    index: Any = None
    id: Any = None
    function: FunctionDelta | None = None
    extra_content: Any = None  # Gemini's signature of a thought


class _OpenCall:
    def __init__(self, index: int | None, position: int) -> None:
        self.index = index
        self.position = position  # among the calls of the answer
        self.id = ""
        self.name = ""
        self.extra: str | None = None
        self._arguments = StringIO()
        self.size = 0
        self.has_arguments = False  # perhaps empty ones
        self._checked = 0  # its size when it was last found to be incomplete

    def add(self, call_id: str, name: str, arguments: str) -> None:
        self.id = self.id or call_id
        self.name = self.name or name
        self._arguments.write(arguments)
        self.size += len(arguments)

    def is_whole(self) -> bool:
        if self._checked and self.size < 2 * self._checked:  # a call that grows is not read again for every piece of it
            return False
        try:
            msgspec.json.decode(whole(self._arguments.getvalue()))
        except (ValueError, RecursionError):
            self._checked = self.size
            return False
        return True

    def item(self, call_id: str) -> FunctionCall:
        arguments = whole(self._arguments.getvalue())
        return FunctionCall(whole(self.name), arguments if arguments.strip() else "{}", call_id, extra=self.extra)


class ChatCalls:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._calls: list[_OpenCall] = []
        self._given = 0  # so many of them, from the first on, have been given
        self._by_index: dict[int, _OpenCall] = {}  # the last with that number
        self._by_id: dict[tuple[bool, str], _OpenCall] = {}  # the last with that id, of those with and without a number
        self._last_unnumbered: _OpenCall | None = None
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        """Whether any has begun."""
        return bool(self._calls)

    def take(self, part: CallDelta) -> Iterator[FunctionCall]:
        """The calls that are known to be whole because this fragment begins another."""
        function = part.function or FunctionDelta()
        index = part.index if isinstance(part.index, int) else None
        call_id, name, arguments = _text(part.id), _text(function.name), _arguments(function.arguments)
        for text in (call_id, name, arguments):
            self._sizes.add_arguments(text)
        call = self._call_of(index, call_id, name)
        if call is None:
            yield from self._whole_ones()
            call = self._begin(index)
        if call.position < self._given:
            logger.warning("a provider added to tool call %s after it had begun the next", call.id)
            return
        if call_id and not call.id:
            self._by_id[call.index is None, call_id] = call
        call.add(call_id, name, arguments)
        call.has_arguments |= function.arguments is not None
        if part.extra_content:
            call.extra = _arguments(part.extra_content)
            self._sizes.add_arguments(call.extra)

    def rest(self) -> Iterator[FunctionCall]:
        """At the end of the answer: all that were not given yet."""
        while self._given < len(self._calls):
            yield self._give()

    def _begin(self, index: int | None) -> _OpenCall:
        self._sizes.add_item()
        call = _OpenCall(index, len(self._calls))
        self._calls.append(call)
        if index is None:
            self._last_unnumbered = call
        else:
            self._by_index[index] = call
        return call

    def _whole_ones(self) -> Iterator[FunctionCall]:
        """As the next call begins: those before it are whole, unless a provider writes several side by side."""
        while self._given < len(self._calls) and self._calls[self._given].is_whole():
            yield self._give()

    def _give(self) -> FunctionCall:
        call = self._calls[self._given]
        self._given += 1
        known = whole(call.id)
        call_id = known if known and known not in self._ids else new_call_id()
        self._ids.add(call_id)
        return call.item(call_id)

    def _call_of(self, index: int | None, call_id: str, name: str) -> _OpenCall | None:
        """The call that a fragment belongs to: by number, else by id, else the last; None: a new one."""
        if index is not None:
            numbered = self._by_index.get(index)
            other = self._by_id.get((True, call_id)) if call_id else self._last_unnumbered
            call = _later(numbered, other)
            if call is None:
                return None
            if call is numbered:  # some providers number every call 0
                return None if call_id and call.id and call_id != call.id else call
            return call if call_id or not (name and call.has_arguments) else None
        if call_id:
            return _later(self._by_id.get((True, call_id)), self._by_id.get((False, call_id)))
        if not self._calls:
            return None
        last = self._calls[-1]
        return None if name and last.has_arguments else last


def _later(one: _OpenCall | None, other: _OpenCall | None) -> _OpenCall | None:
    if one is None or other is None:
        return one or other
    return one if one.position > other.position else other


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else _encode(mended(value)).decode()
