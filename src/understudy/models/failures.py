"""Failed requests: the provider's own words, in their many forms, whether waiting may help, and what a person can do."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from understudy.errors import ContextFull, ImagesRefused, ModelError, ModelRefused, ModelUnavailable, StreamLost
from understudy.models.auth import Credentials
from understudy.models.mending import mended, read_mended
from understudy.models.providers import Provider
from understudy.net import HttpFailure, Unreachable, Url

FIRST_DELAY = 0.2
LONGEST_BACKOFF = 60.0
LONGEST_WAIT = 120.0  # if a provider wants us to wait longer, the person who waits is told that instead

TRANSIENT_STATUSES = frozenset({408, 409, 429})
QUOTA_CODES = frozenset({"insufficient_quota", "usage_limit_reached", "usage_not_included"})
FINAL_CODES = QUOTA_CODES | {"context_length_exceeded", "invalid_prompt", "invalid_api_key", "model_not_found"}


def backoff(attempt: int) -> float:
    """Seconds before the next attempt; the first attempt is number 1. Doubles each time, with some jitter."""
    import random  # not at the top, because importing it slows the start and most processes never need it

    return min(FIRST_DELAY * 2 ** min(attempt - 1, 30), LONGEST_BACKOFF) * random.uniform(0.9, 1.1)


def is_transient(status: int) -> bool:
    return status in TRANSIENT_STATUSES or status >= 500


def asked_to_wait(seconds: float) -> str:
    """What to say if that is too long to wait."""
    return (
        f"the provider asks for a pause of {format_length(seconds)}, and no turn waits longer than {format_length(LONGEST_WAIT)};"
        " send the message again later, or use another provider or model"
    )


def format_length(seconds: float) -> str:
    """`60 seconds`, `90 minutes`, `26 hours`, `1157 days`."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{min(seconds, 1e12) / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds a provider asks us to wait: a number, perhaps with a fraction, or an HTTP date."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    return None if value is None else _until(value)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return None if number is None or not math.isfinite(number) else max(number, 0.0)


def _until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError, TypeError, IndexError):  # the standard library raises any of these for a bad date
        return None


SHOWN_CHARACTERS = 4000
LONGEST_RESET = 366 * 24 * 3600.0  # a later time is a mistake
STREAM_CLOSED = "stream closed before response.completed"
EVENT_CUT = "the provider sent an event that breaks off in the middle"
STREAM_IDLE = "idle timeout waiting for SSE"
CALL_MISSING = "the provider ended its answer without the call that it had begun"


class Fault(msgspec.Struct, frozen=True):
    message: str
    codes: tuple[str, ...] = ()  # `code` and `type`, as far as the provider gave them
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
    """The error that a stream contains instead of an answer."""
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
    """Providers have many words for an image that they cannot use; all contain this one."""
    return any("image" in text.lower() for text in (fault.message, *fault.codes))


def refusal_of(status: int, fault: Fault) -> type[ModelRefused]:
    """The error for a status that waiting does not help."""
    if status in (400, 413, 422) and is_full(fault):
        return ContextFull
    return ImagesRefused if status in (400, 404, 413, 415, 422) and is_about_images(fault) else ModelRefused


def described(fault: Fault) -> str:
    when = f" (resets in {_duration(fault.resets_in)})" if fault.resets_in else ""
    return clipped(fault.message) + when


def fault_in_body(body: str) -> Fault:
    """From the body of an error answer; the whole text if we do not know its form."""
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
    """A web page as one line of words; other texts unchanged."""
    if not text.startswith("<"):
        return text
    tag = r"<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>"
    return " ".join(re.sub(tag, " ", text, flags=re.DOTALL | re.IGNORECASE).split())


def clipped(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def wait_in_text(text: str) -> float | None:
    """Seconds, from words such as "try again in 1.3s", "in 250ms", "in 1m2s", "in 20 seconds"."""
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


def with_hint(told: str, hint: str) -> str:
    """Adds the hint after the words that clients know."""
    return f"{told}\n{hint}" if hint else told


class FailureHints:
    """Hints for requests of one model at one provider."""

    def __init__(self, provider: Provider, url: Url, model: str, credentials: Credentials) -> None:
        self._provider = provider
        self._url = url
        self._model = model
        self._credentials = credentials

    def for_status(self, status: int, codes: tuple[str, ...], words: str) -> str:
        """Empty if the provider's words are enough."""
        who, key, model = self._who, self._key, self._model
        if status in (401, 403) or "invalid_api_key" in codes:
            return f"{who} did not accept {key}. {self._remedy_for_key}"
        if status == 402 or not QUOTA_CODES.isdisjoint(codes):
            return (
                f"This is the quota of your account at {who}, for {key}. Look at its billing there, or use another key or provider."
            )
        if "model_not_found" in codes or (status in (400, 404) and model in words):
            return f"{who} does not seem to offer the model `{model}`. Set `model` to one that it has, or use another provider."
        if status == 404:
            return (
                f"{who} has nothing at {self._url}. Check `base_url` (it usually ends in /v1), `wire_api` and `model` (`{model}`)."
            )
        if status == 429:
            return f"{who} allows no more requests for now, for {key}. Try again later, or use another key or provider."
        if status >= 500:
            return f"{who} fails at present. Try again later, or set `model_provider` to another."
        return ""

    def for_fault(self, codes: tuple[str, ...]) -> str:
        """For an error in a stream."""
        return "" if FINAL_CODES.isdisjoint(codes) else self.for_status(200, codes, "")

    def for_failure(self, failure: HttpFailure) -> str:
        """For a request without an answer."""
        if not isinstance(failure, Unreachable):
            return f"So it was with {self._who}. Check {self._place}, and what stands between here and there."
        match failure.why:
            case "refused":
                return f"Nothing listens there. Is the server of {self._who} running, and is {self._place} right?"
            case "name":
                return f"Check {self._place}, and whether this machine can reach the network."
            case "certificate":
                return (
                    "If a proxy of yours signs certificates anew, set CODEX_CA_CERTIFICATE (or SSL_CERT_FILE) to a file with its"
                    f" certificate; else check {self._place}."
                )
            case "date":
                now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
                return f"Is the clock of this machine right? It says {now}. Else the server of {self._place} needs a new one."
            case "tls":
                return f"Does it speak https there? Check {self._place}."
            case "proxy":
                return "The proxy comes from HTTPS_PROXY, HTTP_PROXY or ALL_PROXY; hosts named in NO_PROXY are reached without it."
            case _:
                return f"Check {self._place}, the network, and HTTPS_PROXY where one is needed."

    def for_page(self) -> str:
        return f"That is no model: check {self._place}, which usually ends in /v1."

    @property
    def _who(self) -> str:
        name = self._provider.name or self._provider.id
        return f"{name} (model provider `{self._provider.id}`)"

    @property
    def _place(self) -> str:
        return f"`base_url` of model provider `{self._provider.id}`"

    @property
    def _key(self) -> str:
        source = self._credentials.source_of(self._provider)
        return f"the key from {source}" if source else "a request without a key"

    @property
    def _remedy_for_key(self) -> str:
        if self._credentials.source_of(self._provider):
            return "Check that it is whole, still valid, and meant for this provider and model."
        return f"Name the variable that holds your key: set `env_key` in `[model_providers.{self._provider.id}]`."
