"""Which failures time may mend, and how long to wait before asking again."""

import math
import time
from collections.abc import Mapping

FIRST_DELAY = 0.2
LONGEST_BACKOFF = 60.0
LONGEST_WAIT = 120.0  # a person is waiting too: where a provider would have us wait for longer, that is told instead

TRANSIENT_STATUSES = frozenset({408, 409, 429})
QUOTA_CODES = frozenset({"insufficient_quota", "usage_limit_reached", "usage_not_included"})
FINAL_CODES = QUOTA_CODES | {"context_length_exceeded", "invalid_prompt", "invalid_api_key", "model_not_found"}


def backoff(attempt: int) -> float:
    """Seconds before try `attempt + 1`, where the first attempt is 1: doubling, with some jitter."""
    import random  # not at the top: it costs start-up time, and most processes never need it

    return min(FIRST_DELAY * 2 ** min(attempt - 1, 30), LONGEST_BACKOFF) * random.uniform(0.9, 1.1)


def is_transient(status: int) -> bool:
    return status in TRANSIENT_STATUSES or status >= 500


def asked_to_wait(seconds: float) -> str:
    """What is told where that is longer than anyone waits."""
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
    """What a provider asks us to wait, in seconds: from a number, with a fraction or not, or an HTTP date."""
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
