"""The past of a thread: its turns with their items, made of the log by the same projection that tells of it live."""

import asyncio
import re
from collections.abc import Sequence

from understudy.engine.fold import path_to
from understudy.engine.handle import Handle
from understudy.protocol.records import Entry, Noticed, UserMessage
from understudy.servers.app_server.projection import Projection
from understudy.servers.app_server.wire import Json

LONGEST_PREVIEW = 1000  # characters of the first message
_FORKED = re.compile(r"forked from conversation (\S+)")
READ_AT_ONCE = 256  # records in one step of the event loop: others are served between two


class Past(Projection):
    """A projection that has gone along a log, and the turns that it found there."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(thread_id)
        self.last_seq = 0
        self.created_at = 0.0
        self.updated_at = 0.0
        self.preview = ""
        self.forked_from: str | None = None
        self._turns: dict[str, Json] = {}
        self._items: dict[str, list[Json]] = {}

    def add(self, entry: Entry) -> None:
        self.last_seq = entry.seq
        self.created_at = self.created_at or entry.at
        self.updated_at = entry.at
        match entry.record:
            case UserMessage(message=message) if not self.preview:
                self.preview = message.text()[:LONGEST_PREVIEW]
            case Noticed(message=message) if entry.turn == "0" and (found := _FORKED.fullmatch(message)):
                self.forked_from = found[1]
            case _:
                pass
        for method, params in self.entry(entry):
            if method in ("turn/started", "turn/completed"):
                self._turns[params["turn"]["id"]] = params["turn"]
            elif method == "item/completed":
                self._items.setdefault(params["turnId"], []).append(params["item"])

    def turns(self) -> list[Json]:
        """In order; the one that runs has the items that are not completed yet at its end."""
        running, unfinished = self.running_turn, self.unfinished()
        return [
            {
                **turn,
                "items": [*self._items.get(turn_id, ()), *(unfinished if turn_id == running else ())],
                "itemsView": "full",
            }
            for turn_id, turn in self._turns.items()
        ]


async def read_past(handle: Handle) -> Past:
    """All of the log: what is told live goes on from here."""
    past = Past(handle.id)
    while entries := await handle.read(past.last_seq, READ_AT_ONCE):
        for entry in entries:
            past.add(entry)
        await asyncio.sleep(0)
    return past


async def read_turns(handle: Handle) -> list[Json]:
    """Those of the path that the conversation follows: what was undone, or left for an earlier message, is not shown."""
    entries: list[Entry] = []
    while page := await handle.read(entries[-1].seq if entries else 0, READ_AT_ONCE):
        entries += page
        await asyncio.sleep(0)
    return turns_of(handle.id, path_to(entries))


def turns_of(thread_id: str, entries: Sequence[Entry]) -> list[Json]:
    past = Past(thread_id)
    for entry in entries:
        past.add(entry)
    return past.turns()
