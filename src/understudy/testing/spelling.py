"""What a scripted model says, in the form of each wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from understudy.testing.script import Answer, Hold, Step, Text, Thought, ToolCall, Wire


def spell(answer: Answer, wire: Wire) -> Iterator[Step]:
    """The events of an answer; the server adds the end of the stream (`[DONE]` on Chat)."""
    match wire:
        case "chat":
            return _spell_chat(answer)
        case "responses":
            return _spell_responses(answer)
        case "anthropic":
            return _spell_anthropic(answer)


def _spell_chat(answer: Answer) -> Iterator[Step]:
    index = 0
    for part in answer.parts:
        match part:
            case Text(pieces):
                for piece in pieces:
                    yield _chat({"content": piece}) if isinstance(piece, str) else piece
            case Thought(text):
                yield _chat({"reasoning": text})
            case ToolCall(name, arguments, call_id):
                function = {"name": name, "arguments": arguments}
                yield _chat({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})
                index += 1
    if answer.ending != "whole":
        return
    yield _chat({}, finish="tool_calls" if index else "stop")
    if answer.usage:
        tokens_in, tokens_out = answer.usage
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        yield {"choices": [], "usage": usage}


def _chat(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _spell_responses(answer: Answer) -> Iterator[Step]:
    yield {"type": "response.created", "response": {"id": "resp_1"}}
    for index, part in enumerate(answer.parts):
        match part:
            case Text(pieces):
                yield from _spell_message(index, part, pieces)
            case Thought(text, raw):
                yield from _spell_thought(index, text, raw)
            case ToolCall(name, arguments, call_id):
                item = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name, "arguments": arguments}
                yield {"type": "response.output_item.done", "output_index": index, "item": item}
    if answer.ending == "whole":
        tokens_in, tokens_out = answer.usage or (1, 1)
        usage = {"input_tokens": tokens_in, "output_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
        usage |= {"input_tokens_details": None, "output_tokens_details": None}
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


def _spell_message(index: int, text: Text, pieces: tuple[str | float | Hold, ...]) -> Iterator[Step]:
    item: dict[str, Any] = {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": []}
    at = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
    yield {"type": "response.output_item.added", "output_index": index, "item": item}
    for piece in pieces:
        yield {"type": "response.output_text.delta", **at, "delta": piece} if isinstance(piece, str) else piece
    whole = item | {"content": [{"type": "output_text", "text": text.whole()}]}
    yield {"type": "response.output_item.done", "output_index": index, "item": whole}


def _spell_thought(index: int, text: str, raw: bool) -> Iterator[Step]:
    kind = "response.reasoning_text.delta" if raw else "response.reasoning_summary_text.delta"
    yield {"type": kind, "item_id": f"rs_{index}", "output_index": index, "delta": text}
    content = [{"type": "reasoning_text", "text": text}] if raw else None
    summary = [] if raw else [{"type": "summary_text", "text": text}]
    item = {"type": "reasoning", "id": f"rs_{index}", "summary": summary, "content": content}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _spell_anthropic(answer: Answer) -> Iterator[Step]:
    tokens_in, tokens_out = answer.usage or (1, 1)
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    ending = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**message, **ending, "usage": {"input_tokens": tokens_in, "output_tokens": 1}}}
    yield {"type": "ping"}
    for index, part in enumerate(answer.parts):
        yield from _spell_block(index, part)
    if answer.ending == "whole":
        reason = "tool_use" if any(isinstance(part, ToolCall) for part in answer.parts) else "end_turn"
        yield {"type": "message_delta", "delta": {**ending, "stop_reason": reason}, "usage": {"output_tokens": tokens_out}}
        yield {"type": "message_stop"}


def _spell_block(index: int, part: Text | Thought | ToolCall) -> Iterator[Step]:
    match part:
        case Text(pieces):
            begun: dict[str, Any] = {"type": "text", "text": ""}
            said: list[Any] = [{"type": "text_delta", "text": piece} if isinstance(piece, str) else piece for piece in pieces]
        case Thought(text):
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            said = [{"type": "thinking_delta", "thinking": text}, {"type": "signature_delta", "signature": f"signature-{index}"}]
        case ToolCall(name, arguments, call_id):
            begun = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
            middle = len(arguments) // 2
            said = [{"type": "input_json_delta", "partial_json": piece} for piece in (arguments[:middle], arguments[middle:])]
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in said:
        yield {"type": "content_block_delta", "index": index, "delta": delta} if isinstance(delta, dict) else delta
    yield {"type": "content_block_stop", "index": index}
