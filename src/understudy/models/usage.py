"""Token counts, as each wire spells them. `input_tokens` is all that was sent, whether a cache had it or not."""

from typing import Annotated, Any, cast

import msgspec

from understudy.protocol.items import Usage

MOST_TOKENS = 10**12

Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Sent(msgspec.Struct, gc=False):
    cached_tokens: Tokens | None = None


class _Received(msgspec.Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class ResponsesUsage(msgspec.Struct, gc=False):
    """As the Responses wire has it, and nothing by another wire's name: decoding it is one call, and `read_usage` some thirty."""

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
    """None where the numbers are missing."""
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
    """This provider counts apart what came from its cache and what went into it."""
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
    """A number that no answer can have is as good as none."""
    value = table.get(name)
    return int(value) if (type(value) is int or type(value) is float) and 0 <= value <= MOST_TOKENS else None
