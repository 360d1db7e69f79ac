"""The HTTP request of the current task, as log lines (text or JSON) and traces show it."""

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from hashlib import sha256
from time import time_ns

import msgspec

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_TRACE_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class RequestScope:
    __slots__ = (
        "_id",
        "_session",
        "began_ns",
        "caller",
        "conversation",
        "forwarded",
        "method",
        "operation",
        "own_trace_id",
        "path",
        "peer",
        "span",
        "traceparent",
        "tracestate",
    )

    def __init__(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        self.method = method
        self.path = path  # without the part after `?`
        self.caller: str | None = None
        self.conversation: str | None = None
        self.began_ns = time_ns()
        self.operation = ""  # what is requested, in the client's protocol
        self.span: object | None = None  # of a trace, if traces are made
        self.own_trace_id: str | None = None  # the span's trace, which the client may not have named
        self.traceparent = headers.get(b"traceparent", b"").decode("latin-1")
        self.tracestate = headers.get(b"tracestate", b"").decode("latin-1")
        self._id = headers.get(b"x-request-id", b"").decode("latin-1")
        self._session = headers.get(b"mcp-session-id", b"").decode("latin-1")
        self.peer = ""  # the address at the other end of the connection
        self.forwarded = headers.get(b"x-forwarded-for", b"").decode("latin-1")  # as the header says; anybody may have sent it

    @property
    def id(self) -> str:
        """The id that the client or a proxy before us gave it, or one of our own."""
        if not _NAME.fullmatch(self._id):
            self._id = os.urandom(8).hex()
        return self._id

    @property
    def session(self) -> str | None:
        """A name that connects the lines of one session. Not the id itself, with which a client comes back."""
        return sha256(self._session.encode()).hexdigest()[:16] if self._session else None

    @property
    def trace_id(self) -> str | None:
        if self.own_trace_id is not None:
            return self.own_trace_id
        found = _TRACE_PARENT.fullmatch(self.traceparent)
        return None if found is None or not found[1].strip("0") else found[1]


REQUEST: ContextVar[RequestScope | None] = ContextVar("understudy_request", default=None)


def note_caller(name: str) -> None:
    if (request := REQUEST.get()) is not None:
        request.caller = name


_OF_A_TURN = re.compile(r"turn (\S+) of (\S+)")  # the name of its task
# tokens as `understudy token` makes them, and any token in a header
_TOKEN = re.compile(r"\bus_[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )\S+")

logger = logging.getLogger("understudy.requests")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "fields", {})
        if (request := REQUEST.get()) is not None:
            ids = {
                "request_id": request.id,
                "session": request.session,
                "caller": request.caller,
                "conversation": request.conversation,
                "trace_id": request.trace_id,
            }
            fields |= {name: value for name, value in ids.items() if value}
        if (turn := _turn_at_hand()) is not None:
            fields["turn"], fields["conversation"] = turn
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode({name: _clean(value) for name, value in fields.items()}).decode()


def _turn_at_hand() -> tuple[str, str] | None:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another thread
        return None
    found = None if task is None else _OF_A_TURN.fullmatch(task.get_name())
    return None if found is None else (found[1], found[2])


def _clean(value: object) -> object:
    """The value without tokens and without lone surrogates, which have no UTF-8."""
    if not isinstance(value, str):
        return value
    return without_tokens(value.encode(errors="backslashreplace").decode())


def without_tokens(text: str) -> str:
    return _TOKEN.sub("[token]", text)
