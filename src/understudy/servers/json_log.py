"""Log lines as objects of JSON, one to a line, with the ids of the request and the conversation that they are about."""

import asyncio
import logging
import re
from datetime import UTC, datetime

import msgspec

from understudy.servers.request_scope import REQUEST

_OF_A_TURN = re.compile(r"turn (\S+) of (\S+)")  # the name of its task
_TOKEN = re.compile(r"\bus_[A-Za-z0-9_-]{16,}|(?<=[Bb]earer )\S+")  # as `understudy token` makes them, and any that is sent along

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
    """Without tokens, and without halves of characters, which have no UTF-8."""
    if not isinstance(value, str):
        return value
    return without_tokens(value.encode(errors="backslashreplace").decode())


def without_tokens(text: str) -> str:
    return _TOKEN.sub("[token]", text)
