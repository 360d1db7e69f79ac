"""How a front end appears to the code that shows it a conversation."""

from collections.abc import Callable
from typing import Protocol

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.errors import AgentError
from understudy.protocol.records import Question, TurnEnded


class Viewer(Protocol):
    """What a front end does with a conversation. Called on the event loop, in order, and must not block."""

    @property
    def can_answer(self) -> bool:
        """Whether there is somebody to ask."""
        ...

    def entry(self, live: LiveEntry) -> None: ...

    def delta(self, live: LiveDelta) -> None: ...

    def question(self, question: Question, turn: str) -> None:
        """Put the question to whoever watches. It may come again or have changed."""
        ...

    def question_closed(self, call_id: str, turn: str) -> None:
        """Somebody has answered the question, or an answer would no longer change anything."""
        ...

    def ended(self, ended: TurnEnded) -> None:
        """The awaited turn is over. Nothing more is shown."""
        ...

    def failed(self, error: AgentError) -> None:
        """Nothing more can be shown."""
        ...


class Outlet(Protocol):
    """The connection to a client that may be slow."""

    @property
    def congested(self) -> bool: ...

    def drained(self, callback: Callable[[], None]) -> None:
        """Call back in a later step of the event loop, once there is room."""
        ...


class QuietViewer:
    """Ignores everything. Stands in for a viewer that has stopped, and is a base for those who wait for one record."""

    can_answer = False

    def entry(self, live: LiveEntry) -> None: ...

    def delta(self, live: LiveDelta) -> None: ...

    def question(self, question: Question, turn: str) -> None: ...

    def question_closed(self, call_id: str, turn: str) -> None: ...

    def ended(self, ended: TurnEnded) -> None: ...

    def failed(self, error: AgentError) -> None: ...
