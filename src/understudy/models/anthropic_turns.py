"""From a history to the turns of the Messages API, where user and assistant alternate.

An assistant's turn holds all that came in one answer, and the results of its calls open the user's turn after it. Our log has
each result right behind its call, so answers are put together again by the id that their items share.
"""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import msgspec

from understudy.protocol.items import ANSWER, FunctionCall, FunctionCallOutput, Item, Message, Reasoning

Role = Literal["user", "assistant"]
LONGEST_ID = 64
NO_OUTPUT = "(no result of this call was recorded)"
BEGIN = "(the conversation begins here)"
GO_ON = "Go on."

_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class Part(msgspec.Struct, frozen=True):
    """A piece of a turn: an item, or words of our own."""

    item: Item | None = None
    call: str = ""  # the id of a call or result, as the API takes it
    text: str = ""


class AnthropicTurn(msgspec.Struct, frozen=True):
    role: Role
    parts: tuple[Part, ...]


def turns_of(items: Sequence[Item], *, with_thinking: bool = True) -> list[AnthropicTurn]:
    """They begin and end with the user: newer models refuse to go on with an answer of their own."""
    turns = _Turns(with_thinking)
    for item in items:
        turns.take(item)
    return turns.finish()


def plain_id(text: str) -> str:
    """Other wires have ids, and names of tools, in characters that this one does not take."""
    plain = "".join(character if character in _ID_CHARACTERS else "_" for character in text[:LONGEST_ID])
    return plain or "_"


class _Turns:
    def __init__(self, with_thinking: bool) -> None:
        self._with_thinking = with_thinking
        self._turns: list[tuple[Role, list[Part]]] = []
        self._answer: str | None = None  # that the open assistant's turn came in; None: of another wire
        self._said: list[Part] = []
        self._results: list[Part] = []
        self._open: dict[str, deque[str]] = {}  # calls without a result: id in the log to id for the API
        self._used: set[str] = set()  # ids must differ throughout a request, while some providers count anew in each answer

    def take(self, item: Item) -> None:
        match item:
            case FunctionCallOutput():
                waiting = self._open.get(item.call_id)
                call = waiting.popleft() if waiting else ""
                self._results.append(Part(item, call))
            case Message() if item.role != "assistant":
                self._close()
                self._add("user", [Part(item)])
            case _:
                self._take_said(item)

    def finish(self) -> list[AnthropicTurn]:
        self._close()
        if not self._turns or self._turns[0][0] == "assistant":
            self._turns.insert(0, ("user", [Part(text=BEGIN)]))
        if self._turns[-1][0] == "assistant":
            self._turns.append(("user", [Part(text=GO_ON)]))
        return [AnthropicTurn(role, tuple(parts)) for role, parts in self._turns]

    def _take_said(self, item: Item) -> None:
        named = item.id if isinstance(item, Message | Reasoning | FunctionCall) and (item.id or "").startswith(ANSWER) else None
        if named != self._answer or (named is None and self._results):
            self._close()
            self._answer = named
        if isinstance(item, FunctionCall):
            call = self._new_id(item.call_id)
            self._open.setdefault(item.call_id, deque()).append(call)
            self._said.append(Part(item, call))
        elif not isinstance(item, Reasoning) or (self._with_thinking and item.signature is not None):
            self._said.append(Part(item))

    def _close(self) -> None:
        """The open assistant's turn is whole, and so are its results."""
        said = self._said
        if all(isinstance(part.item, Reasoning) for part in said):
            said = []  # nothing came of these thoughts: the answer broke off
        self._add("assistant", said)
        lost = [Part(call=call, text=NO_OUTPUT) for waiting in self._open.values() for call in waiting]
        results = [part for part in self._results if part.call]
        strays = [part for part in self._results if not part.call]
        self._add("user", [*results, *lost, *strays])
        self._said, self._results, self._open, self._answer = [], [], {}, None

    def _add(self, role: Role, parts: list[Part]) -> None:
        if not parts:
            return
        if self._turns and self._turns[-1][0] == role:
            self._turns[-1][1].extend(parts)
        else:
            self._turns.append((role, parts))

    def _new_id(self, call_id: str) -> str:
        plain = plain_id(call_id)
        name, count = plain, 1
        while name in self._used:
            count += 1
            name = f"{plain}_{count}"
        self._used.add(name)
        return name
