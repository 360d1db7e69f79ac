"""The tool `conversationsSearch`."""

from datetime import UTC, datetime
from typing import Any

from understudy.errors import InvalidArguments
from understudy.protocol.choices import SEARCH_ROLES
from understudy.servers.arguments import Arguments, count, one_in, text
from understudy.servers.mcp.call import Call
from understudy.store.search.asked import Hit, Wanted, read_since

DEFAULT_PAGE = 20
LARGEST_PAGE = 100
_SEARCH = Arguments(
    "an object",
    {"query": text, "folder": text, "since": text, "role": one_in(SEARCH_ROLES), "limit": count, "cursor": text},
    ("query",),
)


async def search(call: Call) -> dict[str, Any]:
    values = _SEARCH.read({} if call.arguments is None else call.arguments)
    since: str | None = values.get("since")
    limit: int = values.get("limit", DEFAULT_PAGE)
    if limit < 1:
        raise InvalidArguments("`limit` is 0: at least 1 is needed")
    wanted = Wanted(
        words=values["query"],
        folder=values.get("folder") or None,
        since=None if since is None else read_since(since),
        role=values.get("role"),
        limit=min(limit, LARGEST_PAGE),
        cursor=values.get("cursor"),
    )
    found = await call.client.engine.search(call.client.caller, wanted)
    result: dict[str, Any] = {"hits": [_row(hit) for hit in found.hits]}
    return result if found.next is None else {**result, "next": found.next}


def _row(hit: Hit) -> dict[str, Any]:
    return {
        "conversation_id": hit.conversation_id,
        "seq": hit.seq,
        "time": datetime.fromtimestamp(hit.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "role": hit.role,
        "snippet": hit.snippet,
    }
