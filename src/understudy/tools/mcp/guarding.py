"""Stands between a server and the SDK, which takes whatever comes: drops what would end the session, bounds what is not read."""

from types import TracebackType
from typing import Any, cast

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from understudy.tools.mcp.limits import MOST_UNANSWERED

_MOST_BITS = 1_000  # of a number


class Guard:
    """Both streams of one session. `problem` says why it was ended here, if it was."""

    def __init__(self, read: Any, write: Any) -> None:
        self.problem: str | None = None
        self.read = _Incoming(self, read)
        self.write = _Outgoing(self, write)
        self._unanswered: set[int | str] = set()

    def passes(self, message: JSONRPCMessage) -> bool:
        """Whether it is passed on. Raises `AnswerUnread`, which ends the session."""
        match message:
            case JSONRPCRequest():
                self._unanswered.add(message.id)
                if len(self._unanswered) > MOST_UNANSWERED:
                    self.problem = "it was ended because it asks and asks and does not read the answers"
                    raise AnswerUnread(self.problem)
            case JSONRPCNotification(method="notifications/cancelled"):
                self._unanswered.discard(cast(int | str, (message.params or {}).get("requestId")))
            case JSONRPCNotification(method="notifications/progress"):
                return not _is_endless(message)
            case _:
                pass
        return True

    def answered(self, message: JSONRPCMessage) -> None:
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._unanswered.discard(message.id)


class AnswerUnread(Exception):
    """What we answered is not read."""


def _is_endless(message: JSONRPCNotification) -> bool:
    """Progress beyond what a float holds, over which the SDK would end the session."""
    return any(isinstance(value, int) and value.bit_length() > _MOST_BITS for value in (message.params or {}).values())


class _Stream:
    def __init__(self, guard: Guard, inner: Any) -> None:
        self._guard = guard
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


class _Incoming(_Stream):
    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        while True:
            item = await self._inner.receive()
            if not isinstance(item, SessionMessage) or self._guard.passes(item.message):
                return item

    def __aiter__(self) -> "_Incoming":
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await self._inner.__anext__()
            if not isinstance(item, SessionMessage) or self._guard.passes(item.message):
                return item


class _Outgoing(_Stream):
    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._guard.answered(item.message)
