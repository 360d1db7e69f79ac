"""Calls of tools: the arguments, read from the model's JSON, what a call asks for, and what the model gets back."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from understudy.errors import ToolError
from understudy.protocol.serde import explain

ParamsT = TypeVar("ParamsT", bound=msgspec.Struct)


def read_arguments(text: str, params: type[ParamsT], name: str | None = None) -> ParamsT:
    """Raises `ToolError` with a reason for the model."""
    try:
        return _decoder(params).decode(text)
    except (ValueError, RecursionError):
        try:
            reason = explain(text, params, name or params.__name__)
        except (ValueError, RecursionError):  # a number with thousands of digits, or endless nesting
            reason = "a number or the nesting is beyond all measure"
        raise ToolError(f"failed to parse function arguments: {reason}") from None


@cache
def _decoder(params: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(params)


class ToolOutput(msgspec.Struct, frozen=True):
    """What the model gets for a call."""

    text: str
    success: bool = True
    images: tuple[str, ...] = ()  # data: URLs, put after the text for a model that can see images


class CommandRequest(msgspec.Struct, frozen=True):
    """A command that the model wants to run."""

    argv: tuple[str, ...]
    workdir: str | None = None  # if relative, it starts at the working directory
    seconds: float | None = None  # None: the configured default
    escalated: bool = False  # the model asks to leave the sandbox
    justification: str | None = None


class SessionRequest(msgspec.Struct, frozen=True):
    """A command that may go on after its call has been answered."""

    script: str
    workdir: str | None = None
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_seconds: float = 10.0  # how long the call waits for its end
    most_tokens: int | None = None  # of its output that the model gets; None: as many as it may
    escalated: bool = False
    justification: str | None = None


class InputRequest(msgspec.Struct, frozen=True):
    """Text to type at the terminal of such a command; if empty, only wait for its output."""

    session: int
    text: str
    yield_seconds: float
    most_tokens: int | None = None


class SearchRequest(msgspec.Struct, frozen=True):
    """Which lines the model is looking for."""

    pattern: str
    path: str | None = None  # None: the working directory
    glob: str | None = None
    max_results: int | None = None


class ListRequest(msgspec.Struct, frozen=True):
    """Which files the model wants to see listed."""

    path: str | None = None
    glob: str | None = None
    depth: int | None = None  # None: as deep as there is room for


class ReadRequest(msgspec.Struct, frozen=True):
    """Which lines of a file to read."""

    path: str
    start_line: int | None = None
    end_line: int | None = None  # included


class EditRequest(msgspec.Struct, frozen=True):
    """A passage of a file, and the text to replace it."""

    path: str
    old_text: str
    new_text: str
    replace_all: bool | None = None
