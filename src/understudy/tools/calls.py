"""A call of a tool: its arguments, read from the JSON of the model, what it asks for, and what the model is told."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from understudy.errors import ToolError
from understudy.protocol.serde import explain

ParamsT = TypeVar("ParamsT", bound=msgspec.Struct)


def read_arguments(text: str, params: type[ParamsT], name: str | None = None) -> ParamsT:
    """Raises `ToolError` with the reason, as the model is told it."""
    try:
        return _decoder(params).decode(text)
    except (ValueError, RecursionError):
        try:
            reason = explain(text, params, name or params.__name__)
        except (ValueError, RecursionError):  # a number of thousands of digits, nesting without end
            reason = "a number or the nesting is beyond all measure"
        raise ToolError(f"failed to parse function arguments: {reason}") from None


@cache
def _decoder(params: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(params)


class ToolOutput(msgspec.Struct, frozen=True):
    """What the model is given for a call."""

    text: str
    success: bool = True
    images: tuple[str, ...] = ()  # data: URLs, shown behind the text to a model that has eyes


class CommandRequest(msgspec.Struct, frozen=True):
    """A command that the model wants to run."""

    argv: tuple[str, ...]
    workdir: str | None = None  # a relative one starts at the working directory
    seconds: float | None = None  # none: the configured default
    escalated: bool = False  # the model asks to leave the sandbox
    justification: str | None = None


class SessionRequest(msgspec.Struct, frozen=True):
    """A command that may go on when its call has been answered."""

    script: str
    workdir: str | None = None
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_seconds: float = 10.0  # how long the call waits for its end
    most_tokens: int | None = None  # of what it printed that the model is given; none: as many as it may
    escalated: bool = False
    justification: str | None = None


class InputRequest(msgspec.Struct, frozen=True):
    """Something to type at the terminal of such a command, or nothing: then only to wait for what it prints."""

    session: int
    text: str
    yield_seconds: float
    most_tokens: int | None = None


class SearchRequest(msgspec.Struct, frozen=True):
    """Lines that the model looks for."""

    pattern: str
    path: str | None = None  # none: the working directory
    glob: str | None = None
    max_results: int | None = None


class ListRequest(msgspec.Struct, frozen=True):
    """Files that the model wants to know of."""

    path: str | None = None
    glob: str | None = None
    depth: int | None = None  # none: as deep as there is room for


class ReadRequest(msgspec.Struct, frozen=True):
    """Lines of a file."""

    path: str
    start_line: int | None = None
    end_line: int | None = None  # included


class EditRequest(msgspec.Struct, frozen=True):
    """A passage of a file, and what is to stand there instead."""

    path: str
    old_text: str
    new_text: str
    replace_all: bool | None = None
