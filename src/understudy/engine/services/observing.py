"""Observers count and trace what an engine does. An engine without an observer spends nothing on it.

An observer sees the records that this process appends, and gets the times of models from `ModelTiming`.
"""

from time import perf_counter, time
from typing import Protocol

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry


class Observer(Protocol):
    """Called on the event loop, in the middle of what it observes: must be quick, and must not raise."""

    def called(self, method: str, params: bytes) -> None:
        """The current request's method and its `params` (JSON), in the protocol that the request uses."""
        ...

    def reached(self, conversation_id: ConversationId) -> None:
        """The current request is about this conversation."""
        ...

    def sent(self, conversation_id: ConversationId, message_id: str) -> None:
        """The current request sends this message. Its turn may begin later, and in another task."""
        ...

    def recorded(self, conversation_id: ConversationId, entry: Entry) -> None:
        """This process has appended a record."""
        ...

    def model_asked(self, conversation_id: ConversationId, turn: str, timing: "ModelTiming") -> None:
        """A request to a model begins."""
        ...

    def model_answered(self, conversation_id: ConversationId, turn: str, timing: "ModelTiming") -> None:
        """The request is over, and its records are written."""
        ...


class ModelTiming:
    """One request to a model: how long this process waited for it, without the time of tools between two pieces of the answer."""

    __slots__ = ("_since", "began_at", "error", "first_seconds", "model", "provider", "seconds")

    def __init__(self, model: str, provider: str) -> None:
        self.model = model
        self.provider = provider
        self.began_at = time()
        self.seconds = 0.0
        self.first_seconds: float | None = None  # until the first piece of the answer
        self.error: str | None = None  # the kind of failure that ended it
        self._since: float | None = perf_counter()

    def listen(self) -> None:
        if self._since is None:
            self._since = perf_counter()

    def hear(self) -> None:
        self.end()
        if self.first_seconds is None:
            self.first_seconds = self.seconds

    def end(self) -> None:
        if self._since is not None:
            self.seconds += perf_counter() - self._since
            self._since = None

    def fail(self, error: BaseException) -> None:
        self.error = getattr(error, "kind", None) or ("cancelled" if not isinstance(error, Exception) else type(error).__name__)


class InHand(msgspec.Struct, frozen=True):
    """What an engine is doing at the moment."""

    turns: int  # running in this process
    questions: int  # waiting for an answer, in conversations that are in memory
    viewers: int
    conversations: int  # in memory
