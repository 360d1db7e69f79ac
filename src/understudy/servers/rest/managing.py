"""Handlers for managing a conversation: compact, undo, fork, rename, archive, delete."""

from typing import Annotated

import msgspec

from understudy.errors import InvalidArguments
from understudy.protocol.ids import read_uuid
from understudy.protocol.ops import Archive, Delete
from understudy.servers.rest.failures import Conflict
from understudy.servers.rest.rows import conversation_of
from understudy.servers.rest.shapes import Done, Renamed, Undone
from understudy.servers.rest.visits import RestAnswer, Visit


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class UndoWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    turn: Annotated[str, msgspec.Meta(description="without it: the last one that changed files and is not undone")] = ""


class ForkWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to the end of this turn, or of the one that read this message; without either: of the last one that is over."""

    turn: str | None = None
    message: str | None = None


class RenameWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str


async def compact(visit: Visit) -> RestAnswer:
    """Does not wait: events report the outcome."""
    handle = await visit.find()
    compacting = await handle.compact()
    await handle.durable()
    when = (
        "before the next request of the turn that runs, or at its end" if compacting.turn is None else "now, in a turn of its own"
    )
    return RestAnswer(Done(status="requested", message=f"the conversation is summed up {when}"), 202)


async def undo(visit: Visit, wanted: UndoWanted) -> Undone:
    handle = await visit.find()
    ended = await handle.undo(wanted.turn)
    if ended.problem:
        raise Conflict(ended.describe(), "not_undone")
    return Undone(status="ok", turn=ended.undone, message=ended.describe(), taken_back=ended.taken_back, left=ended.left)


async def fork(visit: Visit, wanted: ForkWanted) -> RestAnswer:
    if wanted.turn is not None and wanted.message is not None:
        raise InvalidArguments("a fork ends at a `turn` or at a `message`: give one of them")
    message = wanted.message
    if message is not None:
        try:
            message = read_uuid(message)
        except ValueError as error:
            raise InvalidArguments(f"`message` should be the `message_id` of a `user_message`: {error}") from None
    source = await visit.find()
    handle = await visit.engine.fork(visit.caller, source.id, message_id=message, turn=wanted.turn)
    location = f"/v1/conversations/{handle.id}"
    return RestAnswer(await conversation_of(visit.engine, handle), 201, ((b"location", location.encode()),))


async def rename(visit: Visit, wanted: RenameWanted) -> Renamed:
    handle = await visit.find()
    return Renamed(status="ok", title=await handle.rename(wanted.title))


async def archive(visit: Visit) -> Done:
    await (await visit.find()).submit(Archive())
    return Done(status="ok")


async def unarchive(visit: Visit) -> Done:
    await (await visit.find()).submit(Archive(archived=False))
    return Done(status="ok")


async def delete(visit: Visit) -> Done:
    await (await visit.find()).submit(Delete())
    return Done(status="ok")
