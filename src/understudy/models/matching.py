"""Whether two requests are the same but for what differs from run to run: ids, folders, dates and durations."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from understudy.models.mending import DEEPEST, is_deep, read_loosely

SHOWN_LINES = 60
SHOWN_CHARACTERS = 240

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?[AP]M\b)?"
_DATE = re.compile(
    rf"\b\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK})?(?:\s?(?:Z\b|[+-]\d\d:?\d\d\b))?"
    rf"|(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?(?:\b\d{{1,2}}\s+{_MONTH}(?!\s+\d{{1,2}}(?![\d:]))|\b{_MONTH}\s+\d{{1,2}}\b)"
    rf"(?:,?\s+\d{{4}}\b)?(?:,?\s+{_CLOCK})?(?:\s+(?:[A-Z]{{2,5}}|[+-]\d{{4}})\b)?(?:\s+\d{{4}}\b)?"
    rf"|\b\d{{1,2}}:\d\d:\d\d(?:[.,]\d+)?\b"
)
_DURATION = re.compile(r"\b(?:\d+m)?\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|milliseconds?|s|secs?|seconds?)\b")
_DURATIONS = ("duration_seconds", "duration", "wall_time_seconds")
_ID = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9a-f]{12,}|[0-9A-F]{12,})(?![0-9A-Za-z])"
)


class Normaliser:
    """Makes one request comparable. Ids keep which of them are the same: the first is `<id 1>` wherever it stands."""

    def __init__(self, places: Mapping[str, str]) -> None:
        found = [(path, name.removeprefix("real ")) for name, path in places.items() if len(path) > 1]
        self._names = dict(reversed(found))  # where two are the same folder, the first name counts
        paths = "|".join(re.escape(path) for path in sorted(self._names, key=len, reverse=True))
        self._places = re.compile(rf"(?:{paths})(?![\w.-])") if found else None
        self._ids: dict[str, str] = {}

    def normalise(self, value: Any, depth: int = 2 * DEEPEST) -> Any:
        """`depth`: how much deeper JSON in a text may go and still be read. A value itself is `mended`: it is no deeper."""
        if isinstance(value, str):
            inner = _as_object(value, depth - 1)
            return self._text(value) if inner is None else {"(JSON)": self.normalise(inner, depth - 1)}
        if isinstance(value, list):
            return [self.normalise(entry, depth - 1) for entry in cast(list[Any], value)]
        if isinstance(value, dict):
            table = cast(dict[str, Any], value)
            return {key: "<duration>" if key in _DURATIONS else self.normalise(entry, depth - 1) for key, entry in table.items()}
        return value

    def _text(self, text: str) -> str:
        if self._places is not None:
            text = self._places.sub(lambda match: f"<{self._names[match[0]]}>", text)
        text = _ID.sub(lambda match: self._ids.setdefault(match[0], f"<id {len(self._ids) + 1}>"), text)
        text = _DATE.sub("<date>", text)
        return _DURATION.sub("<duration>", text)


def _as_object(text: str, depth: int) -> dict[str, Any] | None:
    """Arguments and outputs of tools are JSON within JSON, in which escapes would hide where words begin."""
    if not text.startswith("{"):
        return None
    try:
        value = read_loosely(text.encode("utf-8", "replace"))
    except ValueError:
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) and not is_deep(value, depth) else None


def difference(recorded: Any, sent: Any, line: int) -> str:
    """What is not the same in two requests that were made comparable, as a diff that a person can read."""
    import difflib

    diff = difflib.unified_diff(list(_lines(recorded)), list(_lines(sent)), f"recorded (line {line})", "sent", n=1, lineterm="")
    shown = [text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…" for text in diff]
    more = [f"… and {len(shown) - SHOWN_LINES} more lines"] if len(shown) > SHOWN_LINES else []
    return "\n".join([*shown[:SHOWN_LINES], *more])


def _lines(value: Any, path: str = "") -> Iterator[str]:
    """A line for each value, or for each line of a text."""
    if isinstance(value, dict) and value:
        for key, entry in sorted(cast(dict[str, Any], value).items()):
            yield from _lines(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, entry in enumerate(cast(list[Any], value)):
            yield from _lines(entry, f"{path}[{index}]")
    else:
        for text in value.split("\n") if isinstance(value, str) else [repr(cast(Any, value))]:
            yield f"{path}: {text}"
