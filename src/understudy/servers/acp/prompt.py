"""A prompt that waits for the end of its turn."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from understudy.engine.broadcast import LiveEntry
from understudy.engine.viewer import QuietViewer
from understudy.errors import AgentError
from understudy.protocol.jsonrpc import RequestId
from understudy.protocol.records import TurnEnded


class Shown(Protocol):
    def __call__(self, seq: int, callback: Callable[[], None]) -> None: ...


class RunningPrompt(QuietViewer):
    """`done` has the end of the turn once the client has been shown it; None: it was given up."""

    def __init__(self, request_id: RequestId, when_shown: Shown) -> None:
        self.request_id = request_id
        self.message_id = ""
        self.sent = False
        self.cancelled = False
        self.done: asyncio.Future[TurnEnded | None] = asyncio.get_running_loop().create_future()
        self.when_shown = when_shown
        self._seq = 0

    def entry(self, live: LiveEntry) -> None:
        self._seq = live.entry.seq

    def ended(self, ended: TurnEnded) -> None:
        self.when_shown(self._seq, lambda: self._settle(ended))

    def failed(self, error: AgentError) -> None:
        if self.done.done():
            return
        if self.cancelled:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
            self.done.exception()  # whoever waits is told; nobody may, once the server ends

    def stop(self) -> None:
        self.cancelled = True
        self._settle(None)

    def _settle(self, ended: TurnEnded | None) -> None:
        if not self.done.done():
            self.done.set_result(ended)
