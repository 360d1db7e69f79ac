"""A page of `conversationsList`, as clients see it."""

from datetime import UTC, datetime
from typing import Any

from understudy.engine.engine import Engine
from understudy.store.log import Listed, Page


async def page_of_rows(page: Page, engine: Engine) -> dict[str, Any]:
    result: dict[str, Any] = {"conversations": [await _row(listed, engine) for listed in page.rows]}
    if page.next_cursor is not None:
        result["next_cursor"] = page.next_cursor
    return result


async def _row(listed: Listed, engine: Engine) -> dict[str, Any]:
    standing = await engine.standing_of(listed)
    listed, summary = standing.listed, standing.listed.summary
    row: dict[str, Any] = {
        "conversation_id": listed.conversation_id,
        "title": summary.title,
        "created_at": _rfc3339(listed.created_at),
        "updated_at": _rfc3339(listed.updated_at),
        "status": standing.status,
        "message_count": summary.message_count,
        "cwd": summary.cwd,
        "model": summary.model,
        "pending": list(summary.pending),
        **summary.spent(),
    }
    if standing.going_on:
        row["running"] = standing.going_on.shown()
    return row


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
