"""What the two wires have in common: how a request is put and how its answer is read."""

import os
from typing import Any, Protocol, cast

from understudy.models.events import ModelEvent
from understudy.models.prompt import Prompt


class EventQueue(Protocol):
    def append(self, event: ModelEvent, /) -> None: ...


class Decoder(Protocol):
    """Reads one answer. Events go to `queue` as they are known; raises ModelError when the answer fails."""

    ended: bool  # `Completed` was given
    nearly_ended: bool  # all is said; only the bill is missing
    cut: bool  # an event breaks off in the middle: what it said is lost
    heard: int  # events so far that are of an answer; not those that only keep a connection alive

    @property
    def said(self) -> int:
        """It grows with whatever the model says. Events of an answer may be empty, without end."""
        ...

    def feed(self, payloads: list[bytes], queue: EventQueue) -> None: ...

    def close(self, queue: EventQueue) -> None:
        """No more will come. Raises StreamLost unless the answer was whole."""
        ...


class Wire(Protocol):
    path: str

    def headers(self, prompt: Prompt) -> list[tuple[str, str]]: ...

    def body(self, prompt: Prompt) -> list[bytes]:
        """In pieces, to be sent as one."""
        ...

    def decoder(self) -> Decoder: ...

    def gives_way(self, prompt: Prompt, status: int, body: str) -> bool:
        """After a refusal: whether the next body leaves out what the provider may have stumbled over.

        True at most once for each thing that can be left out: the request is put again at once.
        """
        ...


def new_call_id() -> str:
    return f"call_{os.urandom(12).hex()}"


TEXT_KEYS = ("text", "content", "thinking", "summary")


def text_of(value: Any, depth: int = 8) -> str:
    """The text in whatever shape a provider gives it: a string, an object with it under one of several names, a list of these."""
    if not value or not depth:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join([text_of(part, depth - 1) for part in cast(list[Any], value)])
    if isinstance(value, dict):
        table = cast(dict[str, Any], value)
        return next((text for key in TEXT_KEYS if (text := text_of(table.get(key), depth - 1))), "")
    return ""
