"""Handlers that only read: who asks, the list, one conversation, its events or items as a page or as a stream.

`…/report`: everything that one turn did and used. The results of calls have a brief form of it.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, get_args

import msgspec

from understudy import __version__
from understudy.config.tokens import MODES, RIGHTS
from understudy.engine.handle import Handle
from understudy.engine.viewers.following import is_reasoning
from understudy.errors import AgentError
from understudy.protocol.choices import ApprovalPolicy
from understudy.protocol.records import Overrides
from understudy.servers.http.answers import Refusal
from understudy.servers.http.guards import accepts
from understudy.servers.http.stream_sink import StreamSink
from understudy.servers.items.codec import ItemCodec, ItemLines
from understudy.servers.items.shapes import AnyItem, Items
from understudy.servers.report import report_of
from understudy.servers.rest.event_stream import EventPosition, EventStream, StreamCodec, codec_at, read_position
from understudy.servers.rest.events import RestCodec
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.rows import ListQuery, conversation_of, list_rows
from understudy.servers.rest.shapes import Conversation, Me, Report, Rows
from understudy.servers.rest.visits import RestAnswer, Visit
from understudy.servers.wire_events.presentation import presentation_of


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


LATELY = 50  # conversations, in search of folders and models

_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class EventsWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events. Without `after` and `before`: a page has the last ones, a stream begins at the beginning."""

    after: Annotated[_Seq, msgspec.Meta(description="those of records after this one")] | None = None
    before: Annotated[_Seq, msgspec.Meta(description="those of records before this one, the last ones of them")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="records on a page")] = 200
    stream: Annotated[bool, msgspec.Meta(description="as server-sent events, and on as they happen")] | None = None
    answers: Annotated[
        bool, msgspec.Meta(description="whether somebody watches this stream who can be relied upon to answer questions")
    ] = True


async def me(visit: Visit) -> Me:
    caller = visit.caller
    limits = caller.limits
    page = await visit.engine.list(caller, LATELY)
    try:
        default = [visit.engine.configure(Overrides()).model]
    except AgentError:  # the configuration is wrong, which is reported where it matters
        default = []
    models = dict.fromkeys([*default, *(each.summary.model for each in page.rows)])
    return Me(
        name=caller.name,
        rights=tuple(right for right in RIGHTS if right in caller.rights),
        others=tuple(right for right in RIGHTS if right in caller.others),
        roots=None if limits is None else limits.roots,
        sandbox_modes=tuple(mode for mode in MODES if limits is None or mode in limits.modes),
        models=tuple(model for model in models if model),
        approval_policies=get_args(ApprovalPolicy),
        folders=tuple(dict.fromkeys(each.summary.cwd for each in page.rows if each.summary.cwd)),
        version=__version__,
    )


async def conversations(visit: Visit, wanted: ListQuery) -> Rows:
    return await list_rows(visit.engine, visit.caller, wanted)


async def conversation(visit: Visit) -> Conversation:
    return await conversation_of(visit.engine, await visit.find())


async def events(visit: Visit, wanted: EventsWanted) -> RestAnswer | EventStream:
    handle = await visit.find()
    accept = visit.asked.header(b"accept")
    if wanted.stream or (wanted.stream is None and accept is not None and "text/event-stream" in accept.lower()):
        return await stream_of(visit, handle, wanted, RestCodec)
    if not accepts(accept, "application/json"):
        raise Refusal(406, "events are application/json or text/event-stream, and the request accepts neither")
    return RestAnswer(await _page(handle, wanted))


class Span(msgspec.Struct, frozen=True):
    """The records of a page: `first` to `last`, and the last one that exists (`end`)."""

    first: int
    last: int
    end: int
    more: bool


def span_of(handle: Handle, wanted: EventsWanted) -> Span:
    end = handle.published
    if wanted.after is None:
        last = end if wanted.before is None else max(0, min(end, wanted.before - 1))
        first = max(1, last - wanted.limit + 1)
        return Span(first, last, end, first > 1)
    first = min(wanted.after, end) + 1
    last = min(end, first + wanted.limit - 1)
    if wanted.before is not None:
        last = min(last, wanted.before - 1)
    return Span(first, last, end, last < end)


async def _page(handle: Handle, wanted: EventsWanted) -> msgspec.Raw:
    """An `Events` of `shapes.py`, joined from what the codec has written."""
    span = span_of(handle, wanted)
    hidden = presentation_of(handle).hides_reasoning
    codec = await codec_at(handle, span.first - 1, RestCodec)
    lines: list[bytes] = []
    for live in await handle.read_shared(span.first - 1, span.last):
        written = codec.lines(live)
        if not (hidden and is_reasoning(live.entry.record)):
            lines += written
    facts = b'"first":%d,"last":%d,"end":%d,"more":%b' % (span.first, span.last, span.end, b"true" if span.more else b"false")
    return msgspec.Raw(b'{"events":[' + b",".join(lines) + b"]," + facts + b"}")


async def stream_of(visit: Visit, handle: Handle, wanted: EventsWanted, make: Callable[[Handle], StreamCodec]) -> EventStream:
    if wanted.before is not None:
        raise Refusal(400, "a stream goes on as things happen: `before` is for pages")
    position = EventPosition(wanted.after or 0)
    if (last := visit.asked.header(b"last-event-id")) is not None:
        found = read_position(last)
        if found is None:
            raise Refusal(400, "Last-Event-ID is none of this conversation's events")
        position = found
    end = handle.published
    if position.record > end:  # the log never had that number: only new events follow it
        position = EventPosition(end)
    codec = await codec_at(handle, position.record, make)
    rest: list[bytes] = []
    if position.events is not None and position.record:
        for live in await handle.read_shared(position.record - 1, position.record):
            rest += codec.lines(live)[position.events :]
    sink = StreamSink(asyncio.get_running_loop())
    hides = presentation_of(handle).hides_reasoning
    stream = EventStream(handle, sink, codec, position.record, answers=wanted.answers, hides_reasoning=hides)
    stream.begin(position, rest)
    return stream


async def items(visit: Visit, wanted: EventsWanted) -> Items | EventStream:
    handle = await visit.find()
    accept = visit.asked.header(b"accept")
    if wanted.stream or (wanted.stream is None and accept is not None and "text/event-stream" in accept.lower()):
        return await stream_of(visit, handle, wanted, ItemLines)
    if not accepts(accept, "application/json"):
        raise Refusal(406, "items are application/json or text/event-stream, and the request accepts neither")
    return await items_of(handle, wanted)


async def items_of(handle: Handle, wanted: EventsWanted) -> Items:
    span = span_of(handle, wanted)
    hidden = presentation_of(handle).hides_reasoning
    codec: ItemCodec = (await codec_at(handle, span.first - 1, ItemLines)).codec
    found: dict[str, AnyItem] = {}
    for live in await handle.read_shared(span.first - 1, span.last):
        for update in codec.updates(live):
            if update.item is not None and not (hidden and is_reasoning(live.entry.record)):
                found[update.item.id] = update.item
    return Items(items=tuple(found.values()), first=span.first, last=span.last, end=span.end, more=span.more)
