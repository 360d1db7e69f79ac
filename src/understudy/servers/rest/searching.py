"""Routes about all conversations that the caller may read: what was said and run in them, and rows that change."""

from typing import Annotated

import msgspec

from understudy.protocol.choices import SearchRole
from understudy.servers.rest.changes import ChangesStream
from understudy.servers.rest.shapes import SearchHit, SearchHits
from understudy.servers.rest.visits import Visit
from understudy.servers.times import rfc3339
from understudy.store.search.asked import HOW, Wanted, read_since


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to look for."""

    q: Annotated[str, msgspec.Meta(description='words; "in this order", begin*, -without, this OR that')]
    folder: Annotated[str, msgspec.Meta(description="said while working in this folder or below it")] | None = None
    since: Annotated[str, msgspec.Meta(description=HOW)] | None = None
    role: Annotated[SearchRole, msgspec.Meta(description="who said it, or what was run")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, msgspec.Meta(description="the `next` of the page before")] | None = None


async def search(visit: Visit, wanted: SearchQuery) -> SearchHits:
    found = await visit.engine.search(
        visit.caller,
        Wanted(
            words=wanted.q,
            folder=wanted.folder or None,
            since=None if wanted.since is None else read_since(wanted.since),
            role=wanted.role,
            limit=wanted.limit,
            cursor=wanted.cursor,
        ),
    )
    hits = tuple(
        SearchHit(conversation_id=hit.conversation_id, seq=hit.seq, time=rfc3339(hit.at), role=hit.role, snippet=hit.snippet)
        for hit in found.hits
    )
    return SearchHits(hits=hits, next=found.next)


async def watch(visit: Visit) -> ChangesStream:
    return await visit.changes.open(visit.visitor)
