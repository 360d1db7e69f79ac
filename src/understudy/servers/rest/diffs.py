"""`…/diff`: what patches have changed in files, in one turn or in all of them."""

import asyncio
from typing import Annotated

import msgspec

from understudy.engine.handle import Handle
from understudy.protocol.records import DiffChanged, TurnStarted, UndoEnded
from understudy.servers.http.guards import accepts
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.joined_diffs import join_diffs
from understudy.servers.rest.shapes import Diff
from understudy.servers.rest.visits import RestAnswer, Visit

PAGE = 500


class DiffWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    turn: Annotated[str, msgspec.Meta(description="of this turn; without it: of all of them, as one diff")] | None = None


async def diff(visit: Visit, wanted: DiffWanted) -> RestAnswer:
    handle = await visit.find()
    by_turn, turns = await _diffs(handle)
    if wanted.turn is None:
        text = await asyncio.to_thread(join_diffs, list(by_turn.values()))
    elif wanted.turn in turns:
        text = by_turn.get(wanted.turn, "")
    else:
        raise NotThere("no such turn in this conversation; its events name them")
    accept = visit.asked.header(b"accept")
    if accept is not None and "application/json" in accept and not accepts(accept, "text/x-diff"):
        return RestAnswer(Diff(turn=wanted.turn, diff=text))
    return RestAnswer(text.encode(errors="replace"), headers=((b"content-type", b"text/x-diff; charset=utf-8"),))


async def _diffs(handle: Handle) -> tuple[dict[str, str], set[str]]:
    """The last diff of each turn that has one and was not taken back, in the order of the turns; and all turns."""
    found: dict[str, str] = {}
    turns: set[str] = set()
    after = 0
    while page := await handle.read(after, PAGE):
        for entry in page:
            match entry.record:
                case DiffChanged(unified_diff=text):
                    found[entry.turn] = text
                case TurnStarted(turn_id=turn):
                    turns.add(turn)
                case UndoEnded(undone=turn, complete=True):
                    found.pop(turn, None)
                case _:
                    pass
        after = page[-1].seq
        await asyncio.sleep(0)  # others are served in between
    return found, turns
