"""A turn as the app server's clients see it, and why one failed."""

from collections.abc import Sequence

from understudy.errors import ContextFull
from understudy.protocol.records import Failure, RetryScheduled, TurnEnded
from understudy.servers.app_server.wire import Json


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
    return _error(ended.describe_failure(), _kind(ended.failure))


def retry_error(retry: RetryScheduled) -> Json:
    """Of a request that is put again."""
    info: Json = {"responseStreamDisconnected": {"httpStatusCode": retry.status}}
    return _error(f"Reconnecting... {retry.attempt}/{retry.of}", info, retry.why)


def _kind(failure: Failure | None) -> object:
    if failure is not None and failure.kind == ContextFull.kind:
        return "contextWindowExceeded"
    if failure is None or failure.status in (None, 400):
        return "other"
    return {"httpConnectionFailed": {"httpStatusCode": failure.status}}


def _error(message: str, info: object, details: str | None = None) -> Json:
    return {"message": message, "codexErrorInfo": info, "additionalDetails": details, "misalignment": None}
