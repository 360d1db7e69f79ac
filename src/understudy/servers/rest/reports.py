"""`…/report`: all that one turn did and used. The results of calls have a brief form of it."""

from typing import Annotated

import msgspec

from understudy.servers.report import report_of
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.shapes import Report
from understudy.servers.rest.visits import Visit


class ReportWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    turn: Annotated[str, msgspec.Meta(description="of this turn; without it: of the last one")] | None = None


async def report(visit: Visit, wanted: ReportWanted) -> Report:
    handle = await visit.find()
    turn = handle.last_turn if wanted.turn is None else wanted.turn
    if turn is None:
        raise NotThere("no turn has begun in this conversation")
    work = await handle.read_work(turn)
    if work is None:
        raise NotThere("no such turn in this conversation; its events name them")
    return Report(turn=turn, **report_of(work, "full"))
