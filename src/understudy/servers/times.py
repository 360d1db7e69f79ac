"""Moments in REST's notation."""

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    whole = int(seconds // 1)
    micro = round(seconds % 1 * 1_000_000)  # rounded as `datetime` does
    if micro == 1_000_000:
        whole, micro = whole + 1, 0
    return f"{_second(whole)}.{micro // 1000:03}Z"


@lru_cache(maxsize=64)  # a history has thousands of moments, many within the same second
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).isoformat().removesuffix("+00:00")
