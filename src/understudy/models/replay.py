"""Replays a recording instead of asking a provider: nothing is sent, and a request that differs in more than ids, folders and dates
is refused.
"""

import asyncio
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.config.named_file import read_named_file
from understudy.config.providers import WIRES, WireApi
from understudy.errors import ConfigError, ModelRefused
from understudy.models.mending import DEEPEST, is_deep, mended, read_loosely, read_mended
from understudy.models.model import ReadsText
from understudy.models.recording import Recorded
from understudy.models.stream_secrets import hide
from understudy.net import AnswerCut, AnswerSilent, BadAnswer, HttpFailure, Unreachable, Url
from understudy.policy.secrets import secret_pattern

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
    """Makes requests comparable. Equal ids stay equal: the first one becomes `<id 1>` everywhere."""

    def __init__(self, places: Mapping[str, str]) -> None:
        found = [(path, name.removeprefix("real ")) for name, path in places.items() if len(path) > 1]
        self._names = dict(reversed(found))  # if two names mean the same folder, the first one counts
        paths = "|".join(re.escape(path) for path in sorted(self._names, key=len, reverse=True))
        self._places = re.compile(rf"(?:{paths})(?![\w.-])") if found else None
        self._ids: dict[str, str] = {}

    def normalise(self, value: Any, depth: int = 2 * DEEPEST) -> Any:
        """`depth`: how deeply JSON within a text may be nested to be read. A value itself is never too deep, because it is
        `mended`."""
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
    """Arguments and outputs of tools are JSON within JSON, whose escapes would hide where words begin."""
    if not text.startswith("{"):
        return None
    try:
        value = read_loosely(text.encode("utf-8", "replace"))
    except ValueError:
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) and not is_deep(value, depth) else None


def difference(recorded: Any, sent: Any, line: int) -> str:
    """The differences of two comparable requests, as a diff for people."""
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


STEP = 64 * 1024  # bytes that are returned at once
MOST_BYTES = 1 << 30  # of a recording

_opened: dict[tuple[str, int, int], "Recording"] = {}  # shared, so that all conversations of a process use up the same recording


class Recording:
    """A file, and which of its exchanges have been replayed."""

    def __init__(self, path: Path, lines: Sequence[tuple[int, Recorded]]) -> None:
        self.path = path
        self._lines = lines
        self._normalised: dict[int, Any] = {}  # those compared so far: preparing all at once would take long
        self._used: set[int] = set()

    @property
    def wire(self) -> WireApi:
        return next(wire for wire in WIRES if wire == self._lines[0][1].wire)

    @property
    def model(self) -> str:
        request: Any = self._lines[0][1].request
        return str(cast(dict[str, Any], request).get("model", "")) if isinstance(request, dict) else ""

    def take(self, request: Any, places: Mapping[str, str]) -> Recorded:
        """The first exchange with this request that was not replayed yet. Raises ModelRefused."""
        sent = Normaliser(places).normalise(request)
        left = [index for index in range(len(self._lines)) if index not in self._used]
        for index in left:
            if self._comparable(index) == sent:
                self._used.add(index)
                return self._lines[index][1]
        if not left:
            raise ModelRefused(
                f"{self.path}: all {len(self._lines)} recorded exchanges have been played, and the model is asked again"
            )
        number = self._lines[left[0]][0]
        raise ModelRefused(
            f"{self.path}: this request was not recorded. {len(left)} of {len(self._lines)} exchanges are left; "
            f"from the first of them it differs in this:\n{difference(self._comparable(left[0]), sent, number)}"
        )

    def _comparable(self, index: int) -> Any:
        if index not in self._normalised:
            line = self._lines[index][1]
            self._normalised[index] = Normaliser(line.places).normalise(mended(line.request))
        return self._normalised[index]


def open_recording(path: Path) -> Recording:
    """Raises ConfigError."""
    try:
        found = path.stat()
        key = (str(path), found.st_mtime_ns, found.st_size)
        if key not in _opened:
            _opened[key] = Recording(path, _read(path, read_named_file(path, MOST_BYTES)))
        return _opened[key]
    except OSError as error:
        raise ConfigError(f"cannot read the recording {path}: {error.strerror}\n`understudy.replay` should name one.") from None


def _read(path: Path, data: bytes) -> list[tuple[int, Recorded]]:
    lines: list[tuple[int, Recorded]] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            recorded = msgspec.json.decode(line, type=Recorded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{path}: line {number} is not of a recording: {error}") from None
        if recorded.recording != 1 or recorded.wire not in WIRES:
            raise ConfigError(f"{path}: line {number} was recorded by another version of understudy")
        lines.append((number, recorded))
    if not lines:
        raise ConfigError(f"the recording {path} is empty")
    return lines


class Player:
    """Replaces a transport."""

    def __init__(self, recording: Recording, places: Mapping[str, str], secrets: Sequence[str]) -> None:
        self._recording = recording
        self._places = places
        self._secrets = secret_pattern(secrets)

    async def post(self, url: Url, headers: Sequence[tuple[str, str]], body: Sequence[bytes], *, seconds: float) -> "Played":
        request = hide(read_mended(b"".join(body)), self._secrets)  # hidden, as in the recording
        recorded = self._recording.take(request, self._places)
        if recorded.status is None:
            if recorded.ending == "left":
                await asyncio.sleep(seconds)
            raise failure_of(recorded)
        return Played(recorded)


class Played(ReadsText):
    def __init__(self, recorded: Recorded) -> None:
        self.status = recorded.status or 0
        self.reason = recorded.reason
        self.headers = {**recorded.headers, "retry-after-ms": "0"}  # waiting helps nobody here
        self._recorded = recorded
        self._body = recorded.body.encode()
        self._at = 0

    async def read(self, seconds: float) -> bytes:
        await asyncio.sleep(0)  # lets others run, as an answer over a network would
        data = self._body[self._at : self._at + STEP]
        self._at += len(data)
        if data or self._recorded.ending == "whole":
            return data
        if self._recorded.ending == "left":
            await asyncio.sleep(seconds)
        raise failure_of(self._recorded)

    def finish(self) -> None:
        pass

    def abort(self) -> None:
        pass


def failure_of(recorded: Recorded) -> HttpFailure:
    match recorded.ending:
        case "cut" | "reset":
            return AnswerCut(recorded.failure, by_force=recorded.ending == "reset")
        case "silent":
            return AnswerSilent(recorded.failure)
        case "left":  # the recorded caller stopped waiting here, and so may this one
            return AnswerSilent("the recorded answer goes no further")
        case "unreachable":
            return Unreachable(recorded.failure)
        case _:
            return BadAnswer(recorded.failure)
