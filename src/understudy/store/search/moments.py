"""`since`, as people spell it: a day, a moment, or how long ago."""

import re
import time
from datetime import UTC, datetime

from understudy.errors import BadRequest

HOW = "a day or moment like 2026-11-19 or 2026-11-19T12:00:00Z (UTC unless it says otherwise), or how long ago: 30m, 12h, 7d, 2w"
_AGO = re.compile(r"(\d{1,6})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def read_since(text: str) -> float:
    """Raises `BadRequest`."""
    text = text.strip()
    if (ago := _AGO.fullmatch(text)) is not None and text.isascii():
        return max(0.0, time.time() - int(ago[1]) * _SECONDS[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
        return max(0.0, (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        raise BadRequest(f"`since` is no time: {text[:40]!r}; give {HOW}") from None
