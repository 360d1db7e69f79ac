"""One request of REST as its handler sees it: who asks, and for what."""

from typing import Any

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller, by_door
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.servers.http.answers import Headers
from understudy.servers.http.asked import Asked
from understudy.servers.http.browsers import Visitor
from understudy.servers.rest.changes import Changes


class RestAnswer(msgspec.Struct, frozen=True):
    """What a handler returns. `body`: one of `shapes.py`, or bytes with a content type of their own."""

    body: Any = None
    status: int = 200
    headers: Headers = ()


class Visit:
    """The caller, the request, and the named parts of its path."""

    def __init__(self, engine: Engine, changes: Changes, visitor: Visitor, asked: Asked, named: dict[str, str]) -> None:
        self.engine = engine
        self.changes = changes
        self.visitor = visitor
        self.asked = asked
        self.named = named  # parts of the path, by their names in the route

    @property
    def caller(self) -> Caller:
        return by_door(self.visitor.principal.caller, "rest" if self.visitor.login is None else "page")

    async def find(self, *, to_send: bool = False) -> Handle:
        """The conversation that the path names. Raises `UnknownConversation`, whatever the reason."""
        try:
            conversation_id = ConversationId(read_uuid(self.named["id"]))
        except ValueError:
            raise UnknownConversation("no such conversation") from None
        return await self.engine.find(self.caller, conversation_id, to_send=to_send)
