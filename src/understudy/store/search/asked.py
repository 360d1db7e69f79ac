"""What a search asks for and finds, for any kind of store. `since` is parsed here from what people type."""

import base64
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Protocol

import msgspec

from understudy.errors import BadRequest
from understudy.protocol.choices import SearchRole
from understudy.protocol.ids import ConversationId

PATIENCE_SECONDS = 20.0

Mask = Callable[[str], str]  # removes secrets from a text


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    words: str  # as they were typed
    folder: str | None = None  # only what was said while the conversation worked in this folder or below it
    since: float | None = None
    role: SearchRole | None = None
    limit: int = 20
    cursor: str | None = None
    owner: str | None = None  # the owner of the conversations; None: all owners


class Hit(msgspec.Struct, frozen=True):
    conversation_id: ConversationId
    seq: int
    at: float
    role: SearchRole
    snippet: str
    owner: str


class Found(msgspec.Struct, frozen=True):
    """The newest hits first. With `next` there may be older ones, even if this page has few hits or none."""

    hits: tuple[Hit, ...]
    next: str | None


class Search(Protocol):
    """Finds words in the logs of a store."""

    async def find(self, wanted: Wanted, mask: Mask, patience: float = PATIENCE_SECONDS) -> Found:
        """Search all that was committed before. Raises `BadRequest` if the question is bad, and `StoreError`, also if the index
        must be built first and that takes longer than `patience`.
        """
        ...


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    place: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


def write_cursor(place: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Cursor(place))).decode().rstrip("=")


def read_cursor(text: str) -> int:
    """Raises `BadRequest`. A forged cursor does no harm: it only says where to go on."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Cursor).place
    except (ValueError, msgspec.MsgspecError):
        raise BadRequest("invalid cursor: give the `next` of the page before") from None


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
