"""The past of a thread: its turns with their items, made of the log by the same projection that tells of it live."""

import asyncio
import re
from collections.abc import Sequence

from understudy.engine.handle import Handle
from understudy.engine.log_path import path_to
from understudy.protocol.records import Entry, Noticed, Opened, UserMessage
from understudy.servers.app_server.projection import Projection
from understudy.servers.app_server.thread_shape import LONGEST_PREVIEW
from understudy.servers.app_server.wire import Json
from understudy.servers.failures import InvalidParams
from understudy.servers.presentation import presentation_of

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
        self.provider = ""
        self.thread_source: str | None = None
        self._turns: dict[str, Json] = {}
        self._items: dict[str, list[Json]] = {}

    def add(self, entry: Entry) -> None:
        self.last_seq = entry.seq
        self.created_at = self.created_at or entry.at
        self.updated_at = entry.at
        match entry.record:
            case UserMessage(message=message) if not self.preview:
                self.preview = message.text()[:LONGEST_PREVIEW]
            case Opened(provider=provider, thread_source=thread_source):
                self.provider = provider
                self.thread_source = thread_source
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


class Log:
    """What a conversation's log tells so far: all of it for whoever goes on from there, and what is shown of it as history."""

    def __init__(self, thread_id: str, entries: Sequence[Entry], *, hides_reasoning: bool = False) -> None:
        self.past = _gone_along(thread_id, entries)
        self._hidden = {"reasoning"} if hides_reasoning else set[str]()
        path = path_to(entries)
        self._shown = self.past if len(path) == len(entries) else _gone_along(thread_id, path)

    def turns(self) -> list[Json]:
        """Those of the path that the conversation follows: what was undone, or left for an earlier message, is not shown."""
        turns = self._shown.turns()
        if not self._hidden:
            return turns
        return [{**turn, "items": [item for item in turn["items"] if item["type"] not in self._hidden]} for turn in turns]

    def items(self, turn_id: str | None = None) -> list[Json]:
        """Of one turn or of all, each with the id of its turn."""
        turns = [turn for turn in self.turns() if turn_id in (None, turn["id"])]
        return [{"turnId": turn["id"], "item": item} for turn in turns for item in turn["items"]]


def _gone_along(thread_id: str, entries: Sequence[Entry]) -> Past:
    past = Past(thread_id)
    for entry in entries:
        past.add(entry)
    return past


async def read_log(handle: Handle) -> Log:
    entries: list[Entry] = []
    while page := await handle.read(entries[-1].seq if entries else 0, READ_AT_ONCE):
        entries += page
        await asyncio.sleep(0)
    return Log(handle.id, entries, hides_reasoning=presentation_of(handle).hides_reasoning)


# -- pages


def page_of(rows: Sequence[Json], cursor: str | None, limit: int, *, newest_first: bool) -> Json:
    """A cursor names the row to begin with, whichever way one goes from there. Raises `InvalidParams`."""
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 12):
        raise InvalidParams("Invalid params: `cursor` is to be a cursor of an earlier answer")
    last = len(rows) - 1
    first = int(cursor) if cursor is not None else last if newest_first else 0
    step = -1 if newest_first else 1
    shown = (
        range(min(first, last), max(-1, min(first, last) - limit), -1)
        if newest_first
        else range(first, min(first + limit, last + 1))
    )
    following = shown[-1] + step if shown else -1
    return {
        "data": [rows[index] for index in shown],
        "nextCursor": str(following) if 0 <= following <= last else None,
        "backwardsCursor": str(shown[0]) if shown else None,
    }


def last_cursor(rows: Sequence[Json]) -> str | None:
    """By which one goes back from the newest."""
    return str(len(rows) - 1) if rows else None
