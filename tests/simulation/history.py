"""All that happened in a simulated world, in one order: what was committed, what each client was shown and told, what was done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from understudy.protocol.records import Entry


class Event(NamedTuple):
    at: float
    kind: str
    conversation: str
    facts: dict[str, Any]

    def __str__(self) -> str:
        facts = " ".join(f"{name}={_brief(value)}" for name, value in self.facts.items())
        return f"{self.at - 1000:9.4f} {self.kind:10} {self.conversation[-4:]} {facts}"


class History:
    def __init__(self, now: Callable[[], float]) -> None:
        self.events: list[Event] = []
        self._now = now
        self.deaf = False  # a process is being unwound after its end: what it says now, it never said

    def note(self, kind: str, conversation: str = "", **facts: Any) -> None:
        if not self.deaf:
            self.events.append(Event(self._now(), kind, conversation, facts))

    def committed(self, conversation: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.note("commit", conversation, entry=entry)

    def tell(self) -> str:
        return "\n".join(map(str, self.events))


def _brief(value: object) -> str:
    if isinstance(value, Entry):
        return f"{value.seq}:{value.turn}:{_brief(value.record)}"
    text = repr(value)
    return text if len(text) <= 150 else f"{text[:110]}…{text[-30:]}"
