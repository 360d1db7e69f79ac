"""Finding a conversation by the beginning of its id, through the index and without reading any log."""

import sqlite3
from pathlib import Path

from understudy.errors import BadRequest, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.protocol.uuids import read_uuid
from understudy.store.writer import explain

MOST_NAMED = 5
LISTED = "`understudy conversations` lists those there are"
_LIKENESS = 0.75
_DASHES = (8, 12, 16, 20)  # digits before each dash of a UUID


def find_id(path: Path, spelled: str) -> ConversationId:
    """The one conversation whose id begins so. Raises `UnknownConversation`, or `BadRequest` where there are several."""
    start = _spell(spelled)
    found = _beginning_with(path, start) if path.exists() else []
    if not found:
        raise UnknownConversation(f"no conversation {spelled}{_meant(path, start)}; {LISTED}")
    if len(found) > 1:
        some = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
        raise BadRequest(f"{spelled} could be one of {some}; give more of the id")
    return found[0]


def _meant(path: Path, start: str) -> str:
    """A word on the ids that look like it."""
    import difflib

    beginnings = {one[: len(start)]: one for one in (all_ids(path) if path.exists() else ())}
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


def all_ids(path: Path) -> list[ConversationId]:
    return _ids(path, "SELECT id FROM conversations ORDER BY id")


def _beginning_with(path: Path, start: str) -> list[ConversationId]:
    query = "SELECT id FROM conversations WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
    return _ids(path, query, start, start + "g", MOST_NAMED + 1)  # `g` comes after all that can stand in an id


def _ids(path: Path, query: str, *values: object) -> list[ConversationId]:
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(query, values).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise explain(error, str(path)) from error
    return [ConversationId(row[0]) for row in rows]
