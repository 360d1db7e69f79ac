"""Turns exceptions into errors of REST: a status, a code for programs, and words for people. Nothing else builds these."""

import logging
from typing import Any

import msgspec

from understudy.errors import (
    AgentError,
    BadRequest,
    BudgetSpent,
    ConfigError,
    ConversationBusy,
    LacksRight,
    ModelError,
    NotAllowed,
    StoreError,
    TooManyTurns,
    UnknownConversation,
    WorkspaceAway,
    WorkspaceFailed,
    report_bug,
)
from understudy.servers.http.answers import Refusal

logger = logging.getLogger(__name__)

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    421: "misdirected",
    429: "too_many_requests",
    500: "internal",
    502: "model_error",
    503: "unavailable",
}


def code_of(status: int) -> str:
    return _CODES.get(status, "failed")


class Conflict(AgentError):
    """What was asked for does not fit to how things stand. `details` say how they stand."""

    kind = "conflict"

    def __init__(self, message: str, code: str = "conflict", **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class NotThere(BadRequest):
    kind = "not_found"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    code: str
    message: str
    by: str | None = None  # if a question was already answered: who was first
    decision: str | None = None
    decided_at: str | None = None


class Failure(msgspec.Struct, frozen=True):
    error: Problem


def to_refusal(error: Exception) -> Refusal:
    """The answer for any exception of a handler."""
    match error:
        case Refusal():
            return error
        case UnknownConversation():
            return _refuse(404, "no such conversation; GET /v1/conversations lists those that there are")
        case NotThere():
            return _refuse(404, str(error))
        case BudgetSpent():
            return Refusal(403, str(error), data=Problem("budget_spent", str(error)))
        case TooManyTurns():
            return Refusal(429, str(error), headers=((b"retry-after", b"1"),))
        case LacksRight(right=right, on_others=on_others):
            return Refusal(403, str(error), lacks=(right, on_others))
        case NotAllowed():
            return _refuse(403, str(error))
        case Conflict(code=code, details=details):
            return Refusal(409, str(error), data=Problem(code, str(error), **details))
        case ConversationBusy():
            return _refuse(409, str(error))
        case BadRequest() | ConfigError():
            return _refuse(400, str(error))
        case ModelError():
            return _refuse(502, str(error))
        case StoreError():
            return _refuse(503, str(error))
        case WorkspaceFailed():
            return Refusal(503 if isinstance(error, WorkspaceAway) else 502, str(error), data=Problem(error.kind, str(error)))
        case AgentError():
            return _refuse(409, str(error))
        case _:
            return _refuse(500, report_bug(logger, error, "in a request of REST"))


def _refuse(status: int, message: str) -> Refusal:
    return Refusal(status, message)


def body_of(refusal: Refusal) -> bytes:
    problem = refusal.data if isinstance(refusal.data, Problem) else Problem(code_of(refusal.status), str(refusal))
    return msgspec.json.encode(Failure(problem))
