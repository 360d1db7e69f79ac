"""A turn as the app server's clients see it, and why one failed."""

import re
from collections.abc import Sequence

from understudy.protocol.records import TurnEnded
from understudy.servers.app_server.wire import Json
from understudy.servers.exec_failures import failure_text

_RETRY = re.compile(r"stream error: (?P<why>.*); retrying (?P<count>\d+/\d+) in [^;]*", re.DOTALL)
_STATUS = re.compile(r"(?:HTTP|unexpected status|last status:) (\d{3})\b")
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
    found = _RETRY.fullmatch(notice)
    if found is None:
        return None
    status = _STATUS.search(found["why"])
    disconnected = {"responseStreamDisconnected": {"httpStatusCode": int(status[1]) if status else None}}
    return _error(f"Reconnecting... {found['count']}", disconnected, found["why"])


def _kind(text: str) -> object:
    status = _STATUS.search(text)
    if _FULL.search(text):
        return "contextWindowExceeded"
    if status is None or status[1] == "400":
        return "other"
    return {"httpConnectionFailed": {"httpStatusCode": int(status[1])}}


def _error(message: str, info: object, details: str | None = None) -> Json:
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}
