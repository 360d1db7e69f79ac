"""The commands of a conversation that outlive its turns. While one runs, its process keeps the claim on the conversation.

Their work is in `tools/acts`, which is loaded when the first of them begins.
"""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from understudy.engine.log.tail import Tail

if TYPE_CHECKING:
    from understudy.tools.session import Sessions

LEAVING = "it was ended because the server ended"
DELETED = "it was ended because the conversation was deleted"
ARCHIVED = "it was ended because the conversation was archived"
UNRECORDED = "it was ended because the log cannot be written"


class LongCommands:
    def __init__(self, tail: Tail, on_over: Callable[[], None]) -> None:
        """`on_over`: called when a command has ended."""
        self._tail = tail
        self._on_over = on_over
        self._sessions: Sessions | None = None

    def __bool__(self) -> bool:
        """Whether any runs here."""
        return bool(self._sessions)

    @property
    def alive(self) -> Container[int]:
        """The numbers of the commands that run here."""
        return () if self._sessions is None else self._sessions.running

    def sessions(self) -> "Sessions":
        if self._sessions is None:
            from understudy.tools.session import Sessions

            tail = self._tail  # its `state` is replaced whenever other processes' records are read
            self._sessions = Sessions(
                lambda: tail.state.sessions.last, lambda number: tail.state.sessions.untold.get(number), self._on_over
            )
        return self._sessions

    async def end_all(self, reason: str) -> None:
        if self._sessions is not None:
            await self._sessions.end_all(reason)

    def end_soon(self, reason: str) -> None:
        for session in tuple(self._sessions.running.values()) if self._sessions is not None else ():
            session.end_soon(reason)
