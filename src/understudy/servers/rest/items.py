"""`…/items`: a conversation as items, a page of them or a stream that goes on."""

from understudy.engine.handle import Handle
from understudy.engine.viewers.following import is_reasoning
from understudy.servers.http.answers import Refusal
from understudy.servers.http.guards import accepts
from understudy.servers.items.codec import ItemCodec
from understudy.servers.items.lines import ItemLines
from understudy.servers.items.shapes import AnyItem, Items
from understudy.servers.rest.event_stream import EventStream, codec_at
from understudy.servers.rest.reading import EventsWanted, span_of, stream_of
from understudy.servers.rest.visits import Visit
from understudy.servers.wire_events.presentation import presentation_of


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
