"""A provider's own words on what went wrong, in the many shapes they come in, and the error they mean to us."""

from typing import Any, cast

import msgspec

from understudy.errors import ContextFull, ImagesRefused, ModelError, ModelRefused, ModelUnavailable, StreamLost
from understudy.models.mending import mended, read_mended
from understudy.models.retry import FINAL_CODES, LONGEST_WAIT, asked_to_wait, is_transient

SHOWN_CHARACTERS = 4000
LONGEST_RESET = 366 * 24 * 3600.0  # a later one is a mistake
STREAM_CLOSED = "stream closed before response.completed"
EVENT_CUT = "the provider sent an event that breaks off in the middle"
STREAM_IDLE = "idle timeout waiting for SSE"
CALL_MISSING = "the provider ended its answer without the call that it had begun"


class Fault(msgspec.Struct, frozen=True):
    message: str
    codes: tuple[str, ...] = ()  # `code` and `type`, whichever the provider gave
    status: int | None = None
    resets_in: float | None = None  # seconds

    @property
    def final(self) -> bool:
        if self.status is not None and self.status >= 400 and not is_transient(self.status):
            return True
        return not FINAL_CODES.isdisjoint(self.codes)


def stream_lost(why: str, *, retry_after: float | None = None) -> StreamLost:
    return StreamLost(f"stream disconnected before completion: {why}", retry_after=retry_after)


def error_in_stream(value: Any) -> ModelError:
    """The error that a stream carries instead of an answer."""
    fault = read_fault(mended(value))
    if is_full(fault):
        return ContextFull(described(fault), codes=fault.codes)
    if fault.final:
        return (ImagesRefused if is_about_images(fault) else ModelRefused)(described(fault), codes=fault.codes)
    wait = wait_in_text(fault.message)
    if wait is not None and wait > LONGEST_WAIT:
        return ModelUnavailable(f"{clipped(fault.message)}; {asked_to_wait(wait)}", lasting=True)
    return stream_lost(clipped(fault.message), retry_after=wait)


FULL_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})
FULL_WORDS = (  # of providers that have no code for it
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds the maximum number of tokens allowed",
    "context window exceeds limit",
    "input is too long",
)


def is_full(fault: Fault) -> bool:
    """Whether the request was too long for the model."""
    if not FULL_CODES.isdisjoint(fault.codes):
        return True
    words = fault.message.lower()
    return any(told in words for told in FULL_WORDS)


def is_about_images(fault: Fault) -> bool:
    """Providers have many words for an image that they cannot use, and all have this one."""
    return any("image" in text.lower() for text in (fault.message, *fault.codes))


def refusal_of(status: int, fault: Fault) -> type[ModelRefused]:
    """What a status that time does not mend means."""
    if status in (400, 413, 422) and is_full(fault):
        return ContextFull
    return ImagesRefused if status in (400, 404, 413, 415, 422) and is_about_images(fault) else ModelRefused


def described(fault: Fault) -> str:
    when = f" (resets in {_duration(fault.resets_in)})" if fault.resets_in else ""
    return clipped(fault.message) + when


def fault_in_body(body: str) -> Fault:
    """Of the body of an error answer; the whole text where it has no shape we know."""
    try:
        value = read_mended(body.encode("utf-8", "replace"))
    except ValueError:
        return Fault(body.strip())
    if isinstance(value, list) and value:
        value = cast(list[Any], value)[0]
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        for key in ("error", "message", "detail"):
            if table.get(key):
                return read_fault(table if key == "message" else table[key])
    return Fault(body.strip())


def read_fault(value: Any) -> Fault:
    if not isinstance(value, dict):
        return Fault(value if isinstance(value, str) else _as_text(value))
    table = cast(dict[str, Any], value)
    message = table.get("message")
    codes = tuple(code for code in (table.get("code"), table.get("type")) if isinstance(code, str))
    status = next((code for code in (table.get("status"), table.get("code")) if type(code) is int), None)
    resets = table.get("resets_in_seconds")
    return Fault(
        message if isinstance(message, str) and message else _as_text(table),
        codes,
        status,
        float(resets) if isinstance(resets, int | float) and 0 < resets < LONGEST_RESET else None,
    )


def without_tags(text: str) -> str:
    """A web page as one line of words; other texts as they are."""
    if not text.startswith("<"):
        return text
    import re

    tag = r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>"
    return " ".join(re.sub(tag, " ", text, flags=re.DOTALL | re.IGNORECASE).split())


def clipped(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def wait_in_text(text: str) -> float | None:
    """Seconds from words such as "try again in 1.3s", "in 250ms", "in 1m2s", "in 20 seconds"."""
    import re

    number = r"(\d+(?:\.\d+)?)"
    length = rf"(?:{number}\s*ms\b|(?:(\d+)\s*m(?:in(?:utes?)?)?\s*)?(?:{number}\s*s)?)"
    found = re.search(rf"(?:(?:try|retry) again in|retry after)\s+{length}", text, re.IGNORECASE)
    if found is None:
        return None
    milliseconds, minutes, seconds = (float(group) if group else 0.0 for group in found.groups())
    total = milliseconds / 1000 + minutes * 60 + seconds
    return total or None


def _as_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60}h {minutes % 60}m" if minutes >= 60 else f"{minutes}m" if minutes else f"{round(seconds)}s"
