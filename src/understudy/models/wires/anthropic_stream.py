"""Reads streams of the Anthropic Messages API: blocks of text, thinking and tool calls, each with a start, deltas and a stop."""

import logging
import os
from io import StringIO
from typing import Any, cast

import msgspec

from understudy.errors import ContextFull, ModelError, ModelRefused
from understudy.models.failures import STREAM_CLOSED, error_in_stream, is_full, read_fault, stream_lost
from understudy.models.mending import Halves, is_cut, mended, read_loosely, whole
from understudy.models.model import Completed, Counted, ItemDone
from understudy.models.wires.wire import EventQueue, Sizes, new_call_id, read_anthropic_usage
from understudy.protocol.items import ANSWER, FunctionCall, Message, OutputText, Reasoning, SummaryText
from understudy.protocol.records import ReasoningDelta, TextDelta

logger = logging.getLogger(__name__)

WAITING = ("ping", "message_start", "")  # these contain no words of the model
FINAL_ERRORS = frozenset({
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
})  # fmt: skip
PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
KINDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}


class _Event(msgspec.Struct, gc=False):
    type: Any = ""
    index: Any = 0
    delta: Any = None
    content_block: Any = None
    message: Any = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class _Block:
    """A block that has not stopped yet."""

    def __init__(self, kind: str, begun: dict[str, Any]) -> None:
        self.kind = kind
        self.begun = begun
        self.signature = _string(begun, "signature")
        self._pieces = StringIO()
        self.halves = Halves()

    def add(self, piece: str) -> None:
        self._pieces.write(piece)

    def text(self) -> str:
        return self._pieces.getvalue()


class AnthropicDecoder:
    def __init__(self) -> None:
        self.ended = False
        self.nearly_ended = False
        self.cut = False
        self.heard = 0
        self._blocks: dict[int, _Block] = {}
        self._held: list[FunctionCall] = []  # calls whose arguments are not valid JSON, perhaps cut off by the output limit
        self._usage: dict[str, Any] = {}
        self._sizes = Sizes()
        self._given = f"{ANSWER}{os.urandom(8).hex()}"
        self._call_ids: set[str] = set()

    @property
    def said(self) -> int:
        return self._sizes.total

    def feed(self, payloads: list[bytes], queue: EventQueue) -> None:
        for payload in payloads:
            if self.ended:
                return
            event = _read(payload)
            if event is None:
                if not self.nearly_ended and is_cut(payload):
                    self.cut = True
                    return
                logger.warning("skipped an event that is no message event: %.200r", payload)
                continue
            self.heard += event.type not in WAITING
            self._take(event, payload, queue)

    def close(self, queue: EventQueue) -> None:
        if not self.ended:
            if not self.nearly_ended:
                raise stream_lost(STREAM_CLOSED)
            self._complete(queue)

    def _take(self, event: _Event, payload: bytes, queue: EventQueue) -> None:
        match event.type:
            case "content_block_delta":
                self._add(_index(event), _table(event.delta), queue)
            case "content_block_start":
                self._begin(_index(event), _table(event.content_block), queue)
            case "content_block_stop":
                self._stop(_index(event), queue)
            case "message_start":
                self._count(_table(event.message).get("usage"))
            case "message_delta":
                self._count(event.usage)
                self._finish(_table(event.delta), queue)
            case "message_stop":
                self._complete(queue)
            case "error":
                raise _failure(event.error)
            case "message":
                self._take_whole(payload, queue)
            case _:
                if event.error:
                    raise _failure(event.error)

    def _begin(self, index: int, begun: dict[str, Any], queue: EventQueue) -> None:
        self._stop(index, queue)
        kind = begun.get("type")
        block = _Block(kind if isinstance(kind, str) else "", begun)
        self._blocks[index] = block
        if block.kind in ("text", "thinking") and (piece := _string(begun, block.kind)):
            self._say(block, piece, queue)

    def _add(self, index: int, delta: dict[str, Any], queue: EventQueue) -> None:
        kind = delta.get("type")
        if not isinstance(kind, str) or kind not in KINDS:
            return
        block = self._blocks.get(index)
        if block is None:  # this server does not report when a block begins
            block = self._blocks[index] = _Block(KINDS[kind], {})
        if kind == "signature_delta":
            signature = _string(delta, "signature")
            self._sizes.add_thought(signature)
            block.signature += signature
        elif block.kind == KINDS[kind] and (piece := _string(delta, PIECES[kind])):
            self._say(block, piece, queue)

    def _say(self, block: _Block, piece: str, queue: EventQueue) -> None:
        match block.kind:
            case "text":
                self._sizes.add_text(piece)
                if piece := block.halves.join(piece):
                    block.add(piece)
                    queue.append(TextDelta(piece))
            case "thinking":
                self._sizes.add_thought(piece)
                if piece := block.halves.join(piece):
                    block.add(piece)
                    queue.append(ReasoningDelta(piece))
            case _:
                self._sizes.add_arguments(piece)
                block.add(piece)

    def _stop(self, index: int, queue: EventQueue) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if rest := block.halves.rest():
            block.add(rest)
            queue.append(TextDelta(rest) if block.kind == "text" else ReasoningDelta(rest))
        match block.kind:
            case "text":
                if text := block.text():
                    self._give(Message("assistant", (OutputText(text),), id=self._given), queue)
            case "thinking":
                summary = (SummaryText(text),) if (text := block.text()) else ()
                self._give(Reasoning(summary=summary, signature=block.signature or None, id=self._given), queue)
            case "redacted_thinking":
                data = _string(block.begun, "data")
                self._sizes.add_thought(data)
                self._give(Reasoning(encrypted_content=data, signature="", id=self._given), queue)
            case "tool_use":
                self._stop_call(block, queue)
            case kind:
                logger.debug("skipped a block of kind %.100r", kind)

    def _stop_call(self, block: _Block, queue: EventQueue) -> None:
        written = whole(block.text())
        if not written.strip():
            begun = block.begun.get("input")
            written = msgspec.json.encode(begun).decode() if isinstance(begun, dict) and begun else "{}"
            self._sizes.add_arguments(written)
        known = _string(block.begun, "id")
        call_id = known if known and known not in self._call_ids else new_call_id()
        self._call_ids.add(call_id)
        self._sizes.add_arguments(known)
        call = FunctionCall(_string(block.begun, "name"), written, call_id, id=self._given)
        if self._held or not _is_json(written):
            self._held.append(call)
        else:
            self._give(call, queue)

    def _give(self, item: Message | Reasoning | FunctionCall, queue: EventQueue) -> None:
        self._sizes.add_item()
        queue.append(ItemDone(item))

    def _finish(self, delta: dict[str, Any], queue: EventQueue) -> None:
        reason = delta.get("stop_reason")
        if not reason:
            return
        self.nearly_ended = True
        cut_off = reason in ("max_tokens", "model_context_window_exceeded", "refusal")
        for index, block in sorted(self._blocks.items()):  # from a server that does not report when a block ends
            if not cut_off or block.kind != "tool_use":
                self._stop(index, queue)
        if cut_off and (usage := read_anthropic_usage(self._usage)) is not None:
            queue.append(Counted(usage))
        match reason:
            case "max_tokens":
                raise ModelRefused("incomplete answer: the model reached its output limit (stop_reason: max_tokens)")
            case "model_context_window_exceeded":
                raise ContextFull(
                    "incomplete answer: the model's context window is full (stop_reason: model_context_window_exceeded)"
                )
            case "refusal":
                raise ModelRefused(f"the model declined to answer (stop_reason: refusal){_explained(delta)}")
            case _:
                for call in self._held:
                    self._give(call, queue)
                self._held.clear()

    def _take_whole(self, payload: bytes, queue: EventQueue) -> None:
        """From a server that answers as a whole, whatever was asked."""
        answer = _table(mended(read_loosely(payload)))
        self._count(answer.get("usage"))
        content = answer.get("content")
        for index, block in enumerate(cast(list[Any], content) if isinstance(content, list) else []):
            self._begin(index, _table(block), queue)
            self._stop(index, queue)
        self._finish({"stop_reason": answer.get("stop_reason") or "end_turn"}, queue)
        self._complete(queue)

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones; those that are not repeated stay."""
        self._usage.update({key: value for key, value in _table(usage).items() if value is not None})

    def _complete(self, queue: EventQueue) -> None:
        for index in sorted(self._blocks):
            self._stop(index, queue)
        for call in self._held:
            self._give(call, queue)
        self._held.clear()
        self.ended = True
        queue.append(Completed(read_anthropic_usage(self._usage)))


def _read(payload: bytes) -> _Event | None:
    """None if it is not an event. Texts of a broken event may begin or end with half a character."""
    try:
        return _decode(payload)
    except (ValueError, RecursionError):
        pass
    try:
        return msgspec.convert(read_loosely(payload), _Event)
    except ValueError:
        return None


def _failure(error: Any) -> ModelError:
    fault = read_fault(mended(error))
    if not FINAL_ERRORS.isdisjoint(fault.codes) and not is_full(fault):
        return ModelRefused(fault.message, codes=fault.codes)
    return error_in_stream(error)


def _explained(delta: dict[str, Any]) -> str:
    why = _string(_table(delta.get("stop_details")), "explanation")
    return f": {whole(why)}" if why else ""


def _index(event: _Event) -> int:
    return event.index if type(event.index) is int else 0


def _table(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _string(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True
