"""One request of REST as its handler sees it: who asks, for what, and the way to answer with a stream."""

from typing import Any

import msgspec

from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides
from understudy.protocol.uuids import read_uuid
from understudy.servers.http.answers import Headers, Send
from understudy.servers.http.asked import Asked
from understudy.servers.page.browsers import Visitor


class Answer(msgspec.Struct, frozen=True):
    """What a handler returns. `body`: one of `shapes.py`, or bytes with a content type of their own."""

    body: Any = None
    status: int = 200
    headers: Headers = ()


class Visit:
    def __init__(self, engine: Engine, visitor: Visitor, asked: Asked, send: Send, named: dict[str, str]) -> None:
        self.engine = engine
        self.visitor = visitor
        self.asked = asked
        self.send = send
        self.named = named  # parts of the path, by their names in the route

    @property
    def caller(self) -> Caller:
        return self.visitor.principal.caller

    async def find(self, *, to_send: bool = False) -> Handle:
        """The conversation that the path names. Raises `UnknownConversation`, whatever the reason."""
        try:
            conversation_id = ConversationId(read_uuid(self.named["id"]))
        except ValueError:
            raise UnknownConversation("no such conversation") from None
        return await self.engine.find(self.caller, conversation_id, to_send=to_send)

    # -- what a caller with limits may choose

    def check_new(self, chosen: Overrides) -> None:
        """Raises `NotAllowed`."""
        limits = self.visitor.principal.limits
        if limits is not None:
            limits.check_choices(chosen)
            limits.check_config(self.engine.configure(chosen))

    def check_message(self, handle: Handle, changes: Overrides | None = None) -> None:
        """Whether the caller may let this conversation work where it is, with these changes. Raises `NotAllowed`."""
        limits = self.visitor.principal.limits
        if limits is None:
            return
        if changes is None:
            limits.check_config(handle.setup().config)
        else:
            limits.check_choices(changes)
            limits.check_config(self.engine.configure(handle.with_changes(changes)))

    def check_images(self, given: list[str]) -> None:
        """Raises `NotAllowed`."""
        limits = self.visitor.principal.limits
        if limits is not None:
            limits.check_images(given)
