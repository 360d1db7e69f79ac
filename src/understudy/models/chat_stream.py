"""Reads Chat Completions streams as real providers send them.

An answer that ends for want of room (`length`) or by a filter raises: its text is kept as an item, but it is no whole answer.
"""

import logging
from typing import Any

import msgspec

from understudy.errors import ModelRefused
from understudy.models.events import Completed, ItemDone
from understudy.models.faults import STREAM_CLOSED, error_in_stream, stream_lost
from understudy.models.usage import read_usage
from understudy.models.wire import Sink, new_call_id, text_of
from understudy.protocol.items import FunctionCall, Message, OutputText, Reasoning, ReasoningText, Usage
from understudy.protocol.records import ReasoningDelta, TextDelta

logger = logging.getLogger(__name__)
encode = msgspec.json.Encoder().encode


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    tool_calls: list[_CallDelta] | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    refusal: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None  # from servers that answer in one piece
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class _OpenCall:
    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.given = False

    def add(self, part: _CallDelta) -> None:
        self.id = self.id or part.id or ""
        if part.function is None:
            return
        self.name = self.name or part.function.name or ""
        match part.function.arguments:
            case str(text):
                self.arguments.append(text)
            case dict(table):
                self.arguments.append(encode(table).decode())
            case None:
                pass

    def text(self) -> str:
        return "".join(self.arguments)

    def is_whole(self) -> bool:
        try:
            msgspec.json.decode(self.text())
        except (msgspec.DecodeError, RecursionError):
            return False
        return True

    def item(self, call_id: str) -> FunctionCall:
        arguments = self.text()
        return FunctionCall(name=self.name, arguments=arguments if arguments.strip() else "{}", call_id=call_id)


class ChatDecoder:
    def __init__(self, *, expects_usage: bool, show_raw: bool) -> None:
        self.ended = False
        self.nearly_ended = False
        self._expects_usage = expects_usage
        self._show_raw = show_raw
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_OpenCall] = []
        self._ids: set[str] = set()
        self._usage: Usage | None = None

    def feed(self, payloads: list[bytes], sink: Sink) -> None:
        for payload in payloads:
            if self.ended:
                return
            if payload == b"[DONE]":
                self._give_all(sink)
                self._complete(sink)
                return
            try:
                chunk = _decode(payload)
            except (msgspec.DecodeError, RecursionError):
                logger.debug("skipped an event that is no chat chunk: %.200r", payload)
                continue
            self._take(chunk, sink)

    def close(self, sink: Sink) -> None:
        if not self.ended:
            if not self.nearly_ended:
                raise stream_lost(STREAM_CLOSED)
            self._complete(sink)

    def _take(self, chunk: _Chunk, sink: Sink) -> None:
        if chunk.error:
            raise error_in_stream(chunk.error)
        if chunk.usage is not None:
            self._usage = read_usage(chunk.usage) or self._usage
        if chunk.choices:
            choice = chunk.choices[0]
            delta = choice.delta or choice.message
            if delta is not None:
                self._take_delta(delta, sink)
            if choice.finish_reason:
                self._finish(choice.finish_reason, sink)
        if self.nearly_ended and (self._usage is not None or not self._expects_usage):
            self._complete(sink)

    def _take_delta(self, delta: _Delta, sink: Sink) -> None:
        if delta.reasoning or delta.reasoning_content or delta.reasoning_details:
            self._take_reasoning(delta, sink)
        if content := delta.content:
            if self._reasoning:
                self._give_reasoning(sink)
            text = content if isinstance(content, str) else text_of(content)
            self._text.append(text)
            sink.append(TextDelta(text))
        if delta.refusal:
            self._text.append(delta.refusal)
            sink.append(TextDelta(delta.refusal))
        if delta.tool_calls:
            self._give_reasoning(sink)
            self._give_text(sink)
            for part in delta.tool_calls:
                self._take_call(part, sink)

    def _take_reasoning(self, delta: _Delta, sink: Sink) -> None:
        # the same thought may come in several spellings at once
        thought = text_of(delta.reasoning) or text_of(delta.reasoning_content) or text_of(delta.reasoning_details)
        if thought:
            self._reasoning.append(thought)
            if self._show_raw:
                sink.append(ReasoningDelta(thought, raw=True))

    def _take_call(self, part: _CallDelta, sink: Sink) -> None:
        call = self._call_of(part)
        if call is None:
            self._give_whole_calls(sink)
            call = _OpenCall(part.index)
            self._calls.append(call)
        if call.given:
            logger.warning("a provider added to tool call %s after it had begun the next", call.id)
            return
        call.add(part)

    def _give_whole_calls(self, sink: Sink) -> None:
        """As the next call begins: those before it are whole, unless a provider writes several side by side."""
        for call in self._calls:
            if not call.given:
                if not call.is_whole():
                    return
                self._give_call(call, sink)

    def _call_of(self, part: _CallDelta) -> _OpenCall | None:
        """The call that a fragment belongs to: by `index`, else by `id`, else the last; None: a new one."""
        for call in reversed(self._calls):
            if part.index is not None and call.index is not None:
                if call.index == part.index:  # some providers number every call 0
                    return None if part.id and call.id and part.id != call.id else call
            elif part.id:
                if part.id == call.id:
                    return call
            else:
                begins = part.function is not None and part.function.name and call.arguments
                return None if begins else call
        return None

    def _finish(self, reason: str, sink: Sink) -> None:
        self.nearly_ended = True
        match reason:
            case "length":
                self._give_reasoning(sink)
                self._give_text(sink)
                raise ModelRefused("incomplete answer: the model reached its output limit (finish_reason: length)")
            case "content_filter":
                self._give_reasoning(sink)
                self._give_text(sink)
                raise ModelRefused("incomplete answer: the provider's content filter cut it off (finish_reason: content_filter)")
            case "error":
                raise stream_lost("the provider reported an error without a word on it")
            case _:
                self._give_all(sink)

    def _give_all(self, sink: Sink) -> None:
        self._give_reasoning(sink)
        self._give_text(sink)
        for call in self._calls:
            if not call.given:
                self._give_call(call, sink)

    def _give_reasoning(self, sink: Sink) -> None:
        if self._reasoning:
            sink.append(ItemDone(Reasoning(content=(ReasoningText("".join(self._reasoning)),))))
            self._reasoning.clear()

    def _give_text(self, sink: Sink) -> None:
        if self._text:
            sink.append(ItemDone(Message(role="assistant", content=(OutputText("".join(self._text)),))))
            self._text.clear()

    def _give_call(self, call: _OpenCall, sink: Sink) -> None:
        call.given = True
        call_id = call.id if call.id and call.id not in self._ids else new_call_id()
        self._ids.add(call_id)
        sink.append(ItemDone(call.item(call_id)))

    def _complete(self, sink: Sink) -> None:
        self.ended = True
        sink.append(Completed(self._usage))
