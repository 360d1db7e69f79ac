"""Finds a conversation by the beginning of its id, through the index and without reading any log."""

import difflib
import os
from collections.abc import Sequence

from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.store.log import Store

MOST_NAMED = 5
LISTED = "`understudy conversations` lists those there are"
READ_AT_ONCE = 50
_LIKENESS = 0.75
_DASHES = (8, 12, 16, 20)  # digits before each dash of a UUID


async def find_id(store: Store, spelled: str) -> ConversationId:
    """The one conversation whose id begins so. Raises `UnknownConversation`, or `BadRequest` if there are several."""
    start = _spell(spelled)
    found = await store.ids(start, MOST_NAMED + 1)
    if not found:
        raise UnknownConversation(f"no conversation {spelled}{_meant(await store.ids(), start)}; {LISTED}")
    if len(found) > 1:
        some = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
        raise BadRequest(f"{spelled} could be one of {some}; give more of the id")
    return found[0]


async def newest_id(store: Store, folder: str | None) -> ConversationId | None:
    """The conversation that was active last in this folder, or in any folder."""
    here = None if folder is None else _real(folder)
    cursor: str | None = None
    while True:
        page = await store.list(READ_AT_ONCE, cursor)
        for listed in page.rows:
            if here is None or _real(listed.summary.cwd) == here:
                return listed.conversation_id
        cursor = page.next_cursor
        if cursor is None:
            return None


def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _meant(ids: Sequence[ConversationId], start: str) -> str:
    """A hint that lists ids which look similar."""
    beginnings = {one[: len(start)]: one for one in ids}
    near = difflib.get_close_matches(start, beginnings, n=2, cutoff=_LIKENESS)
    return f" (did you mean {' or '.join(beginnings[each] for each in near)}?)" if near and len(start) >= 4 else ""


def _spell(spelled: str) -> str:
    try:
        return read_uuid(spelled)
    except ValueError:
        digits = spelled.lower().replace("-", "")
    if not digits or len(digits) > 32 or any(digit not in "0123456789abcdef" for digit in digits):
        raise BadRequest(f"{spelled!r} is not the id of a conversation, nor the beginning of one; {LISTED}")
    return "".join(("-" if index in _DASHES else "") + digit for index, digit in enumerate(digits))
