"""A turn as the app server's clients see it, and why one failed."""

import re
from collections.abc import Sequence

from understudy.protocol.records import TurnEnded
from understudy.servers.app_server.wire import Json
from understudy.servers.exec_failures import failure_text
from understudy.servers.retries import read_retry, status_in

_FULL = re.compile(r"context (?:window|length)|prompt is too long|context_length_exceeded", re.IGNORECASE)


def turn_object(
    turn_id: str,
    status: str,
    *,
    items: Sequence[Json] = (),
    view: str = "notLoaded",
    error: Json | None = None,
    started_at: float | None = None,
    completed_at: float | None = None,
) -> Json:
    spent = None if completed_at is None or started_at is None else max(0, int((completed_at - started_at) * 1000))
    return {
        "id": turn_id,
        "rootTurnId": turn_id,
        "items": list(items),
        "itemsView": view,
        "status": status,
        "error": error,
        "startedAt": None if started_at is None else int(started_at),
        "completedAt": None if completed_at is None else int(completed_at),
        "durationMs": spent,
    }


def error_of(ended: TurnEnded) -> Json:
    text = ended.message or "the turn failed"
    return _error(failure_text(text), _kind(text))


def retry_of(notice: str) -> Json | None:
    """The error of a request that is put again; None where the notice says something else."""
    retry = read_retry(notice)
    if retry is None:
        return None
    return _error(retry.message, {"responseStreamDisconnected": {"httpStatusCode": retry.status}}, retry.why)


def _kind(text: str) -> object:
    status = status_in(text)
    if _FULL.search(text):
        return "contextWindowExceeded"
    if status is None or status == 400:
        return "other"
    return {"httpConnectionFailed": {"httpStatusCode": status}}


def _error(message: str, info: object, details: str | None = None) -> Json:
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}
