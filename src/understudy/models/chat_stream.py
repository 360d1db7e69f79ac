"""Reads Chat Completions streams as real providers send them.

An answer that ends for want of room (`length`) or by a filter raises: its text is kept as an item, but it is no whole answer.
"""

import logging
from io import StringIO
from typing import Any

import msgspec

from understudy.errors import ModelRefused
from understudy.models.chat_calls import CallDelta, ChatCalls
from understudy.models.events import Completed, Counted, ItemDone
from understudy.models.faults import CALL_MISSING, STREAM_CLOSED, error_in_stream, stream_lost
from understudy.models.limits import ANSWER_TEXT, Sizes, size_of
from understudy.models.mending import Halves, is_cut, read_loosely
from understudy.models.usage import read_usage
from understudy.models.wire import EventQueue, text_of
from understudy.protocol.items import Message, OutputText, Reasoning, ReasoningText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

logger = logging.getLogger(__name__)

NOT_CHAT = "nothing in it was of Chat Completions; check `base_url` and `wire_api`"


class _Delta(msgspec.Struct, gc=False):
    content: Any = None  # a string, or parts of one
    tool_calls: list[CallDelta] | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    refusal: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None  # from servers that answer in one piece
    finish_reason: Any = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def _read(payload: bytes) -> _Chunk | None:
    """A chunk whose text is broken; None: it is no chunk at all. Texts may end or begin with half a character."""
    try:
        return msgspec.convert(read_loosely(payload), _Chunk)
    except ValueError:
        return None


class _Text:
    """A text that grows: without an object in memory for each of its pieces."""

    __slots__ = ("_halves", "_pieces", "present", "write")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pieces = StringIO()
        self.write = self._pieces.write  # for pieces that are whole, when those before them were
        self._halves = Halves()
        self.present = False

    def add(self, piece: str) -> str:
        """What can be shown of it now."""
        self.present = True
        piece = self._halves.join(piece)
        self.write(piece)
        return piece

    def rest(self) -> str:
        """What can be shown once no more will come."""
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
        self._refusal: ModelRefused | None = None  # why the answer is not whole; told once its tokens are known
        self._strange = False  # something came that is no part of an answer
        self._broken = False  # a chunk had to be mended: from then on, half a character may have been kept back

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
        # the same thought may come in several spellings at once
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
