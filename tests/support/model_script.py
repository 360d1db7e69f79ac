"""What a scripted model says, in words that know no wire, and how each wire spells it.

A script is a list of answers, built with `say`, `deltas`, `reasoning` and `call` (joined with `+`), or one of `status`,
`cut_after` and `hang`; an answer as a golden recording holds it (a dict) is taken as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Wire = Literal["chat", "responses"]


class Hold:
    """Stands between two deltas: the stream waits there until `ScriptedModel.release`."""


HOLD = Hold()
Step = dict[str, Any] | float | Hold  # one SSE event, a pause in seconds, or a wait for the test


@dataclass(frozen=True)
class Text:
    pieces: tuple[str | float | Hold, ...]

    def whole(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


@dataclass(frozen=True)
class Thought:
    text: str
    raw: bool  # the model's own words; else a summary of them


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: str
    call_id: str


@dataclass(frozen=True)
class Answer:
    parts: tuple[Text | Thought | ToolCall, ...]
    usage: tuple[int, int] | None = None  # input and output tokens
    ending: Literal["whole", "cut", "dropped"] = "whole"

    def __add__(self, other: Answer) -> Answer:
        return Answer(self.parts + other.parts, other.usage or self.usage, other.ending)


@dataclass(frozen=True)
class Refusal:
    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Silence:
    seconds: float | None  # None: until the client or the test ends


Entry = Answer | Refusal | Silence | dict[str, Any]
Script = Sequence[Entry]


def say(text: str, *, usage: tuple[int, int] | None = None) -> Answer:
    return Answer((Text((text,)),), usage)


def deltas(pieces: Sequence[str | float | Hold], *, usage: tuple[int, int] | None = None) -> Answer:
    """Text in several pieces; a number between them is a pause, `HOLD` a wait for `release`."""
    return Answer((Text(tuple(pieces)),), usage)


def reasoning(text: str, *, raw: bool = False) -> Answer:
    return Answer((Thought(text, raw),))


def call(name: str, *, call_id: str = "call1", arguments_text: str | None = None, **arguments: Any) -> Answer:
    """A tool call; `arguments_text` gives its arguments as text, for those that do not parse."""
    text = json.dumps(arguments) if arguments_text is None else arguments_text
    return Answer((ToolCall(name, text, call_id),))


def status(code: int, body: str | Mapping[str, Any] = "", headers: Mapping[str, str] | None = None) -> Refusal:
    return Refusal(code, body if isinstance(body, str) else json.dumps(body), headers or {})


def cut_after(answer: Answer, *, abruptly: bool = False) -> Answer:
    """The stream ends behind `answer` without saying that it is complete; `abruptly`: the connection is dropped."""
    return replace(answer, ending="dropped" if abruptly else "cut")


def hang(seconds: float | None = None) -> Silence:
    return Silence(seconds)


def spell(answer: Answer, wire: Wire) -> Iterator[Step]:
    """The events of an answer; what ends a whole stream (`[DONE]` on Chat) is the server's to add."""
    return _spell_chat(answer) if wire == "chat" else _spell_responses(answer)


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
