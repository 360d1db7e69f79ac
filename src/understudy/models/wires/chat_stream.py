"""Reads Chat Completions streams as real providers send them, and assembles tool calls from their fragments."""

import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import msgspec

from understudy.errors import ModelRefused
from understudy.models.failures import CALL_MISSING, STREAM_CLOSED, error_in_stream, stream_lost
from understudy.models.mending import Halves, is_cut, mended, read_loosely, whole
from understudy.models.model import Completed, Counted, ItemDone
from understudy.models.wires.wire import ANSWER_TEXT, EventQueue, Sizes, new_call_id, read_usage, size_of, text_of
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, ReasoningText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

logger = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class FunctionDelta(msgspec.Struct, gc=False):
    name: Any = None
    arguments: Any = None  # a string; some servers send an object


class CallDelta(msgspec.Struct, gc=False):
    index: Any = None
    id: Any = None
    function: FunctionDelta | None = None
    extra_content: Any = None  # Gemini's signature of a thought


class _OpenCall:
    def __init__(self, index: int | None, position: int) -> None:
        self.index = index
        self.position = position  # its number among the calls of the answer
        self.id = ""
        self.name = ""
        self.extra: str | None = None
        self._arguments = StringIO()
        self.size = 0
        self.has_arguments = False  # even if they are empty
        self._checked = 0  # its size when it was last found incomplete

    def add(self, call_id: str, name: str, arguments: str) -> None:
        self.id = self.id or call_id
        self.name = self.name or name
        self._arguments.write(arguments)
        self.size += len(arguments)

    def is_whole(self) -> bool:
        if self._checked and self.size < 2 * self._checked:  # do not parse a growing call again for every fragment
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
        self._given = 0  # how many of them, from the first on, were passed on
        self._by_index: dict[int, _OpenCall] = {}  # the latest with that number
        self._by_id: dict[tuple[bool, str], _OpenCall] = {}  # the latest with that id, with and without a number
        self._last_unnumbered: _OpenCall | None = None
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        """Whether any call has begun."""
        return bool(self._calls)

    def take(self, part: CallDelta) -> Iterator[FunctionCall]:
        """The calls that are complete now, because this fragment begins another one."""
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
        """At the end of the answer: all that were not passed on yet."""
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
        """When the next call begins, those before it are complete, unless a provider sends several in parallel."""
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
        """The call of this fragment: by number, else by id, else the last one; None: a new call."""
        if index is not None:
            numbered = self._by_index.get(index)
            other = self._by_id.get((True, call_id)) if call_id else self._last_unnumbered
            call = _later(numbered, other)
            if call is None:
                return None
            if call is numbered:  # some providers give every call the number 0
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


NOT_CHAT = "nothing in it was of Chat Completions; check `base_url` and `wire_api`"


class _Delta(msgspec.Struct, gc=False):
    content: Any = None  # a string, or a list of parts
    tool_calls: list[CallDelta] | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None  # from servers that answer as a whole
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def _read(payload: bytes) -> _Chunk | None:
    """A chunk with broken text; None if it is not a chunk. Texts may begin or end with half a character."""
    try:
        return msgspec.convert(read_loosely(payload), _Chunk)
    except ValueError:
        return None


class _Text:
    """A growing text that needs no object in memory for each of its pieces."""

    __slots__ = ("_halves", "_pieces", "present", "write")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pieces = StringIO()
        self.write = self._pieces.write  # shortcut for complete pieces
        self._halves = Halves()
        self.present = False

    def add(self, piece: str) -> str:
        """Add a piece; returns the part that can be shown now."""
        self.present = True
        piece = self._halves.join(piece)
        self.write(piece)
        return piece

    def rest(self) -> str:
        """The part that can be shown once no more comes."""
        rest = self._halves.rest()
        self.write(rest)
        return rest

    def take(self) -> str:
        text = self._pieces.getvalue()
        self._begin()
        return text


class ChatDecoder:
    def __init__(self, *, expects_usage: bool, show_raw: bool) -> None:
        self.ended = False
        self.nearly_ended = False
        self.cut = False
        self.heard = 0
        self._expects_usage = expects_usage
        self._show_raw = show_raw
        self._text = _Text()
        self._reasoning = _Text()
        self._sizes = Sizes()
        self._calls = ChatCalls(self._sizes)
        self._usage: Usage | None = None
        self._refusal: ModelRefused | None = None  # why the answer is incomplete; raised once its tokens are known
        self._strange = False  # something came that does not belong to an answer
        self._broken = False  # a chunk had to be repaired; from then on, half a character may be waiting

    @property
    def said(self) -> int:
        return self._sizes.total

    def feed(self, payloads: list[bytes], queue: EventQueue) -> None:
        for payload in payloads:
            if self.ended:
                return
            if payload == b"[DONE]":
                if self._strange and not self.heard:
                    raise stream_lost(NOT_CHAT)
                if self._refusal is None:
                    self._give_all(queue)
                self._complete(queue)
                return
            try:
                chunk = _decode(payload)
            except (ValueError, RecursionError):
                chunk = _read(payload)
                self._broken = True
            if chunk is None:
                if not self.nearly_ended and is_cut(payload):
                    self.cut = True
                    return
                self._strange = True
                logger.warning("skipped an event that is no chat chunk: %.200r", payload)
                continue
            self._take(chunk, queue)

    def close(self, queue: EventQueue) -> None:
        if not self.ended:
            if not self.nearly_ended:
                raise stream_lost(STREAM_CLOSED)
            self._complete(queue)

    def _take(self, chunk: _Chunk, queue: EventQueue) -> None:
        if chunk.error:
            raise error_in_stream(chunk.error)
        if chunk.usage is not None:
            self._usage = read_usage(chunk.usage) or self._usage
        if chunk.choices:
            self.heard += 1
            choice = chunk.choices[0]
            delta = choice.delta or choice.message
            if delta is not None:
                self._take_delta(delta, queue)
            if choice.finish_reason:
                self._finish(choice.finish_reason, queue)
        elif chunk.choices is None and chunk.usage is None:
            self._strange = True
        if self.nearly_ended and (self._usage is not None or not self._expects_usage):
            self._complete(queue)

    def _take_delta(self, delta: _Delta, queue: EventQueue) -> None:
        if delta.reasoning or delta.reasoning_content or delta.reasoning_details:
            self._take_reasoning(delta, queue)
        if content := delta.content:
            if self._reasoning.present:
                self._give_reasoning(queue)
            if type(content) is str and not self._broken:  # nearly all of them
                sizes, text = self._sizes, self._text
                sizes.text += len(content) if content.isascii() else size_of(content)
                if sizes.text > ANSWER_TEXT:
                    sizes.add_text("")
                text.present = True
                text.write(content)
                queue.append(TextDelta(content))
            else:
                self._take_text(text_of(content), queue)
        if delta.refusal:
            self._take_text(text_of(delta.refusal), queue)
        if delta.tool_calls:
            self._give_reasoning(queue)
            self._give_text(queue)
            for part in delta.tool_calls:
                for call in self._calls.take(part):
                    queue.append(ItemDone(call))

    def _take_text(self, text: str, queue: EventQueue) -> None:
        self._sizes.add_text(text)
        if text := self._text.add(text):
            queue.append(TextDelta(text))

    def _take_reasoning(self, delta: _Delta, queue: EventQueue) -> None:
        # the same thought may come in several fields at once
        thought = text_of(delta.reasoning) or text_of(delta.reasoning_content) or text_of(delta.reasoning_details)
        if thought:
            self._sizes.add_thought(thought)
            thought = self._reasoning.add(thought)
            if thought and self._show_raw:
                queue.append(ReasoningDelta(thought, raw=True))

    def _finish(self, reason: Any, queue: EventQueue) -> None:
        self.nearly_ended = True
        match reason:
            case "length":
                self._give_reasoning(queue)
                self._give_text(queue)
                self._refusal = ModelRefused("incomplete answer: the model reached its output limit (finish_reason: length)")
            case "content_filter":
                self._give_reasoning(queue)
                self._give_text(queue)
                words = "incomplete answer: the provider's content filter cut it off (finish_reason: content_filter)"
                self._refusal = ModelRefused(words)
            case "error":
                raise stream_lost("the provider reported an error and did not say which")
            case "tool_calls" | "function_call" if not (self._text.present or self._calls):
                raise stream_lost(CALL_MISSING)
            case _:
                self._give_all(queue)

    def _give_all(self, queue: EventQueue) -> None:
        self._give_reasoning(queue)
        self._give_text(queue)
        for call in self._calls.rest():
            queue.append(ItemDone(call))

    def _give_reasoning(self, queue: EventQueue) -> None:
        if self._reasoning.present:
            if (rest := self._reasoning.rest()) and self._show_raw:
                queue.append(ReasoningDelta(rest, raw=True))
            self._sizes.add_item()
            queue.append(ItemDone(Reasoning(content=(ReasoningText(self._reasoning.take()),))))

    def _give_text(self, queue: EventQueue) -> None:
        if self._text.present:
            if rest := self._text.rest():
                queue.append(TextDelta(rest))
            self._sizes.add_item()
            queue.append(ItemDone(Message(role="assistant", content=(OutputText(self._text.take()),))))

    def _complete(self, queue: EventQueue) -> None:
        if self._refusal is not None:
            if self._usage is not None:
                queue.append(Counted(self._usage))
            raise self._refusal
        self.ended = True
        queue.append(Completed(self._usage))
