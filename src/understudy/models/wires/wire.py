"""What the wires have in common: how to send a request, read its answer within limits, and count tokens."""

import os
from typing import Annotated, Any, Protocol, cast

import msgspec

from understudy.errors import ModelRefused
from understudy.models.model import ModelEvent, Prompt
from understudy.protocol.items import Usage

MIB = 1024 * 1024

ANSWER_TEXT = 4 * MIB  # bytes of text, and the same again of reasoning
ANSWER_ARGUMENTS = 8 * MIB  # bytes of the arguments of all tool calls together
ANSWER_ITEMS = 16 * 1024  # messages, thoughts and tool calls
EVENT_LIMIT = 24 * MIB  # bytes of one event: a whole answer, escaped
UNSAID_LIMIT = EVENT_LIMIT + 8 * MIB  # bytes of a stream without words of the model: comments, empty events, and one large event
ERROR_BODY_LIMIT = 64 * 1024  # bytes of an error's body that are read


def size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Sizes:
    """The size of one answer so far. Each method raises ModelRefused if it is too large."""

    __slots__ = ("_arguments", "_items", "_thoughts", "text")

    def __init__(self) -> None:
        self.text = self._thoughts = self._arguments = self._items = 0

    @property
    def total(self) -> int:
        """Grows with everything that the model says."""
        return self.text + self._thoughts + self._arguments + self._items

    def add_text(self, text: str) -> None:
        self.text += size_of(text)
        if self.text > ANSWER_TEXT:
            raise too_large(f"more than {ANSWER_TEXT // MIB} MiB of text")

    def add_thought(self, text: str) -> None:
        self._thoughts += size_of(text)
        if self._thoughts > ANSWER_TEXT:
            raise too_large(f"more than {ANSWER_TEXT // MIB} MiB of reasoning")

    def add_arguments(self, text: str) -> None:
        self._arguments += size_of(text)
        if self._arguments > ANSWER_ARGUMENTS:
            raise too_large(f"more than {ANSWER_ARGUMENTS // MIB} MiB of arguments for tools")

    def add_item(self) -> None:
        self._items += 1
        if self._items > ANSWER_ITEMS:
            raise too_large(f"more than {ANSWER_ITEMS} messages and tool calls")


def too_large(what: str) -> ModelRefused:
    return ModelRefused(
        f"the model's answer is too large: {what} in one answer. It was not read any further; ask for the work in smaller steps"
    )


MOST_TOKENS = 10**12

Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Sent(msgspec.Struct, gc=False):
    cached_tokens: Tokens | None = None


class _Received(msgspec.Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class ResponsesUsage(msgspec.Struct, gc=False):
    """In the Responses wire's form only, so that decoding is one call; `read_usage` needs about thirty."""

    input_tokens: Tokens
    output_tokens: Tokens
    total_tokens: Tokens
    input_tokens_details: _Sent | None = None
    output_tokens_details: _Received | None = None
    prompt_tokens: None = None
    completion_tokens: None = None
    prompt_tokens_details: None = None
    completion_tokens_details: None = None
    prompt_cache_hit_tokens: None = None

    def counted(self) -> Usage:
        sent, received = self.input_tokens_details, self.output_tokens_details
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.total_tokens,
            None if sent is None else sent.cached_tokens,
            None if received is None else received.reasoning_tokens,
        )


def read_usage(value: Any) -> Usage | None:
    """None if the numbers are missing."""
    if not isinstance(value, dict):
        return None
    usage = cast(dict[str, Any], value)
    if (sent := _count(usage, "prompt_tokens")) is None:
        sent = _count(usage, "input_tokens")
    if (received := _count(usage, "completion_tokens")) is None:
        received = _count(usage, "output_tokens")
    if sent is None and received is None:
        return None
    cached = _details(usage, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    reasoning = _details(usage, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    if cached is None:
        cached = _count(usage, "prompt_cache_hit_tokens")  # DeepSeek
    total = _count(usage, "total_tokens")
    return Usage(
        input_tokens=sent or 0,
        output_tokens=received or 0,
        total_tokens=(sent or 0) + (received or 0) if total is None else total,
        cached_input_tokens=cached,
        reasoning_output_tokens=reasoning,
    )


def read_anthropic_usage(usage: dict[str, Any]) -> Usage | None:
    """This provider counts tokens read from its cache and written to it separately."""
    sent, received = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if sent is None and received is None:
        return None
    cached, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    total = (sent or 0) + (cached or 0) + (written or 0)
    reasoning = _details(usage, ("output_tokens_details",), "thinking_tokens")
    return Usage(total, received or 0, total + (received or 0), cached, reasoning, written)


def _details(usage: dict[str, Any], keys: tuple[str, ...], name: str) -> int | None:
    for key in keys:
        if isinstance(details := usage.get(key), dict):
            return _count(cast(dict[str, Any], details), name)
    return None


def _count(table: dict[str, Any], name: str) -> int | None:
    """A number that no answer can have counts as missing."""
    value = table.get(name)
    return int(value) if (type(value) is int or type(value) is float) and 0 <= value <= MOST_TOKENS else None


class EventQueue(Protocol):
    def append(self, event: ModelEvent, /) -> None: ...


class Decoder(Protocol):
    """Reads one answer. Puts events into `queue` as they become known; raises ModelError if the answer fails."""

    ended: bool  # `Completed` was passed on
    nearly_ended: bool  # only the token counts are missing
    cut: bool  # an event broke off in the middle, so its content is lost
    heard: int  # events so far that belong to an answer, rather than only keep the connection alive

    @property
    def said(self) -> int:
        """Grows with everything that the model says. Events that say nothing may go on without end."""
        ...

    def feed(self, payloads: list[bytes], queue: EventQueue) -> None: ...

    def close(self, queue: EventQueue) -> None:
        """No more will come. Raises StreamLost unless the answer was complete."""
        ...


class Wire(Protocol):
    path: str

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]: ...

    def body(self, prompt: Prompt) -> list[bytes]:
        """In pieces, to be sent as one."""
        ...

    def decoder(self) -> Decoder: ...

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        """After a refusal: whether the next body leaves out a part that the provider may have rejected.

        True at most once for each such part; then the request is repeated at once.
        """
        ...


def new_call_id() -> str:
    return f"call_{os.urandom(12).hex()}"


TEXT_KEYS = ("text", "content", "thinking", "summary")


def text_of(value: Any, depth: int = 8) -> str:
    """The text in any form that providers use: a string, an object with it under one of several names, or a list of these."""
    if not value or not depth:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join([text_of(part, depth - 1) for part in cast(list[Any], value)])
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return next((text for key in TEXT_KEYS if (text := text_of(table.get(key), depth - 1))), "")
    return ""
