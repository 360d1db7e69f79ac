"""What a scripted model says, independent of the wire.

A script is a list of answers, built with `say`, `slowly`, `deltas`, `reasoning` and `call` (joined with `+`), or one of `status`,
`cut_after` and `hang`. A dict is an answer as the wire has it: `{"events": [...], "done": true}` streams these events, `{"status":
500, "body": "...", "headers": {...}}` refuses, and `"hang": seconds` in either waits first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Wire = Literal["chat", "responses", "anthropic"]


class Hold:
    """Between two deltas: the stream waits there until `ScriptedModel.release`."""


HOLD = Hold()
Step = dict[str, Any] | str | float | Hold  # an event, an event's data as text, a pause in seconds, or a wait for `release`


@dataclass(frozen=True)
class Text:
    """Text in the pieces in which it is streamed."""

    pieces: tuple[str | float | Hold, ...]

    def whole(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))


@dataclass(frozen=True)
class Thought:
    """A piece of reasoning."""

    text: str
    raw: bool  # the model's own words; otherwise a summary


@dataclass(frozen=True)
class ToolCall:
    """A call of one of the agent's tools."""

    name: str
    arguments: str
    call_id: str


@dataclass(frozen=True)
class Answer:
    """A whole answer. The sum of two is one answer with the parts of both."""

    parts: tuple[Text | Thought | ToolCall, ...]
    usage: tuple[int, int] | None = None  # input and output tokens
    ending: Literal["whole", "cut", "dropped"] = "whole"

    def __add__(self, other: Answer) -> Answer:
        return Answer(self.parts + other.parts, other.usage or self.usage, other.ending)


@dataclass(frozen=True)
class Refusal:
    """An HTTP status and nothing streamed."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Silence:
    """No answer for a while."""

    seconds: float | None  # None: until the client or the test ends


Entry = Answer | Refusal | Silence | dict[str, Any]
Script = Sequence[Entry]


def say(text: str, *, usage: tuple[int, int] | None = None) -> Answer:
    """Text in one piece. `usage` is the count of input and output tokens that the model reports."""
    return Answer((Text((text,)),), usage)


def deltas(pieces: Sequence[str | float | Hold], *, usage: tuple[int, int] | None = None) -> Answer:
    """Text in several pieces; a number between them is a pause, `HOLD` a wait for `release`."""
    return Answer((Text(tuple(pieces)),), usage)


def slowly(text: str, *, pause: float = 0.02, usage: tuple[int, int] | None = None) -> Answer:
    """Text word by word, with a pause of so many seconds after each."""
    words = [word for word in re.split(r"(?<=\s)(?=\S)", text) if word]
    return deltas([piece for word in words for piece in (word, pause)], usage=usage)


def reasoning(text: str, *, raw: bool = False) -> Answer:
    """Reasoning before the answer: a summary of it, or with `raw` the model's own words."""
    return Answer((Thought(text, raw),))


def call(name: str, *, call_id: str = "call1", arguments_text: str | None = None, **arguments: Any) -> Answer:
    """A tool call; `arguments_text` gives its arguments as text, for those that do not parse."""
    text = json.dumps(arguments) if arguments_text is None else arguments_text
    return Answer((ToolCall(name, text, call_id),))


def status(code: int, body: str | Mapping[str, Any] = "", headers: Mapping[str, str] | None = None) -> Refusal:
    """Fail with an HTTP status; a mapping becomes a JSON body."""
    return Refusal(code, body if isinstance(body, str) else json.dumps(body), headers or {})


def cut_after(answer: Answer, *, abruptly: bool = False) -> Answer:
    """The stream ends after `answer` without saying that it is complete; `abruptly`: the connection is dropped."""
    return replace(answer, ending="dropped" if abruptly else "cut")


def hang(seconds: float | None = None) -> Silence:
    """Say nothing for so many seconds and then fail; without a number, until the client leaves."""
    return Silence(seconds)
