"""Where the next page of a list begins, as text for the client."""

import base64
import math
import sys
from typing import Annotated

import msgspec

from understudy.errors import BadRequest


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    as_of: float  # when the first page was read: later pages leave out what changed since
    updated_at: float
    number: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


_FIRST_PAGE = Cursor(math.inf, math.inf, 0)


def write_cursor(cursor: Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def read_cursor(text: str | None) -> Cursor:
    """Raises `BadRequest`. None asks for the first page."""
    if text is None:
        return _FIRST_PAGE
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Cursor)
    except (ValueError, msgspec.MsgspecError):
        raise BadRequest("invalid cursor") from None


def finite(stored: float) -> float:
    """The number, or one that a cursor can hold."""
    return min(max(stored, -sys.float_info.max), sys.float_info.max)
