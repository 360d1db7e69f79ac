"""Every address of REST. Requests are served from this table, and the OpenAPI document is made from it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from understudy.servers.items.shapes import Items
from understudy.servers.rest import acting, diffs, exporting, managing, reading, searching, shapes
from understudy.servers.rest.rows import ListQuery

Method = Literal["GET", "POST", "DELETE"]
Handler = Callable[..., Awaitable[Any]]


class Route(msgspec.Struct, frozen=True):
    method: Method
    path: str
    handler: Handler
    summary: str
    answer: type[Any] | None = None
    query: type[Any] | None = None
    body: type[Any] | None = None
    status: int = 200
    streams: bool = False  # the answer may be server-sent events
    kinds: tuple[str, ...] = ()  # content types beside JSON

    @property
    def tag(self) -> str:
        """The heading in documents and generated clients."""
        if self.method == "GET":
            return "watch"
        return "ask and answer" if self.handler.__module__ == acting.__name__ else "manage"


TAGS = {
    "watch": "Read conversations, and follow them as they go on",
    "ask and answer": "Begin turns, stop them, answer their questions",
    "manage": "Rename, archive, summarise, fork, undo and delete",
}


ONE = "/v1/conversations/{id}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/me", reading.me, "Who the request speaks for, and what they may do", shapes.Me),
    Route(
        "GET",
        "/v1/conversations",
        reading.conversations,
        "Conversations: what waits for a person first, then the last active ones",
        shapes.Rows,
        query=ListQuery,
    ),
    Route(
        "POST",
        "/v1/conversations",
        acting.create,
        "Begin a conversation; its first turn runs in the background",
        shapes.Conversation,
        body=acting.NewConversation,
        status=201,
    ),
    Route("GET", ONE, reading.conversation, "One conversation, with its open questions", shapes.Conversation),
    Route(
        "GET",
        ONE + "/events",
        reading.events,
        "What happened: a page of it, or a stream that goes on",
        shapes.Events,
        query=reading.EventsWanted,
        streams=True,
    ),
    Route(
        "GET",
        ONE + "/items",
        reading.items,
        "The same as items, each with a beginning, a state and an end: a page of them, or a stream of `Update`s",
        Items,
        query=reading.EventsWanted,
        streams=True,
    ),
    Route(
        "POST",
        ONE + "/messages",
        acting.send_message,
        "Send a message",
        shapes.Accepted,
        body=acting.NewMessage,
        status=202,
    ),
    Route(
        "POST",
        ONE + "/decisions",
        acting.decide,
        "Answer a question; the first answer counts",
        shapes.Decided,
        body=acting.NewDecision,
    ),
    Route(
        "POST",
        ONE + "/answers",
        acting.answer,
        "Tell the model what it asked the user",
        shapes.Answered,
        body=acting.NewAnswer,
    ),
    Route("POST", ONE + "/interrupt", acting.interrupt, "End the turn that runs", shapes.Stopped),
    Route("POST", ONE + "/compact", managing.compact, "Have the model sum up what was before", shapes.Done, status=202),
    Route(
        "POST",
        ONE + "/undo",
        managing.undo,
        "Take back what the patches of a turn did to files",
        shapes.Undone,
        body=managing.UndoWanted,
    ),
    Route(
        "POST",
        ONE + "/fork",
        managing.fork,
        "A new conversation that begins like this one",
        shapes.Conversation,
        body=managing.ForkWanted,
        status=201,
    ),
    Route("POST", ONE + "/rename", managing.rename, "Give it a title", shapes.Renamed, body=managing.RenameWanted),
    Route("POST", ONE + "/archive", managing.archive, "Put it among the archived ones", shapes.Done),
    Route("POST", ONE + "/unarchive", managing.unarchive, "Take it out of the archive", shapes.Done),
    Route("DELETE", ONE, managing.delete, "Forget it for good", shapes.Done),
    Route(
        "GET",
        ONE + "/diff",
        diffs.diff,
        "What patches have changed in files, in a turn or in all of them",
        shapes.Diff,
        query=diffs.DiffWanted,
        kinds=("text/x-diff",),
    ),
    Route(
        "GET",
        ONE + "/report",
        reading.report,
        "All that a turn did and used",
        shapes.Report,
        query=reading.ReportWanted,
    ),
    Route(
        "GET",
        ONE + "/export",
        exporting.export,
        "The whole conversation as a file",
        query=exporting.ExportWanted,
        kinds=("application/x-ndjson", "text/markdown", "text/html"),
    ),
    Route(
        "GET",
        ONE + "/images/{seq}/{number}",
        exporting.image,
        "An image that an event names",
        kinds=("image/png", "image/jpeg", "image/gif", "image/webp"),
    ),
    Route(
        "GET",
        "/v1/search",
        searching.search,
        "What was said and run, in all conversations: the newest first",
        shapes.SearchHits,
        query=searching.SearchQuery,
    ),
    Route("GET", "/v1/changes", searching.watch, "Rows of the list as they change", streams=True),
)


class Routes:
    """Finds the route of a request."""

    def __init__(self, routes: tuple[Route, ...] = ROUTES) -> None:
        self._by_end: dict[tuple[int, str], list[tuple[tuple[str, ...], Route]]] = {}  # by the number of parts and the last part
        for route in routes:
            parts = tuple(route.path.split("/"))
            end = "" if parts[-1].startswith("{") else parts[-1]
            self._by_end.setdefault((len(parts), end), []).append((parts, route))

    def find(self, path: str) -> dict[str, tuple[Route, dict[str, str]]]:
        """The routes of a path by method, each with the parts that the path names."""
        parts = tuple(path.split("/"))
        found: dict[str, tuple[Route, dict[str, str]]] = {}
        for end in {parts[-1], ""}:
            for wanted, route in self._by_end.get((len(parts), end), ()):
                if (named := _match(wanted, parts)) is not None:
                    found[route.method] = route, named
        return found


def _match(wanted: tuple[str, ...], parts: tuple[str, ...]) -> dict[str, str] | None:
    named: dict[str, str] = {}
    for want, part in zip(wanted, parts, strict=True):
        if want.startswith("{"):
            named[want[1:-1]] = part
        elif want != part:
            return None
    return named
