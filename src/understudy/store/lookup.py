"""Finding a conversation by the beginning of its id, through the index and without reading any log."""

import sqlite3
from pathlib import Path

from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.uuids import read_uuid
from understudy.store.writer import explain

MOST_NAMED = 5
_DASHES = (8, 12, 16, 20)  # digits before each dash of a UUID


def find_id(path: Path, spelled: str) -> ConversationId:
    """The one conversation whose id begins so. Raises `UnknownConversation`, or `BadRequest` where there are several."""
    start = _spell(spelled)
    found = _beginning_with(path, start) if path.exists() else []
    if not found:
        raise UnknownConversation(f"no conversation {spelled}")
    if len(found) > 1:
        some = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
        raise BadRequest(f"{spelled} could be one of {some}; give more of the id")
    return found[0]


def _spell(spelled: str) -> str:
    try:
        return read_uuid(spelled)
    except ValueError:
        digits = spelled.lower().replace("-", "")
    if not digits or len(digits) > 32 or any(digit not in "0123456789abcdef" for digit in digits):
        raise BadRequest(f"{spelled!r} is not the id of a conversation, nor the beginning of one")
    return "".join(("-" if index in _DASHES else "") + digit for index, digit in enumerate(digits))


def _beginning_with(path: Path, start: str) -> list[ConversationId]:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(  # `g` comes after all that can stand in an id
                "SELECT id FROM conversations WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", (start, start + "g", MOST_NAMED + 1)
            ).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error
    return [ConversationId(row[0]) for row in rows]
