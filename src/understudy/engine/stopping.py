"""Ending a turn and waiting until the log says that it is over, whichever process runs it."""

import asyncio
from typing import Literal

import msgspec

from understudy.engine.broadcast import LiveDelta, LiveEntry
from understudy.engine.conversation import Conversation
from understudy.errors import AgentError
from understudy.protocol.records import TurnEnded

PATIENCE_SECONDS = 10.0  # for a turn that does not end
LOOK_SECONDS = 0.02  # how often the claim of another process is looked at


class Stopped(msgspec.Struct, frozen=True):
    """`requested`: the turn was told to end and has not ended yet; `holder` is the process that runs it, where that is known."""

    status: Literal["over", "nothing", "requested"]
    holder: int | None = None


class Stopping:
    """The turn is told to end when this is made, so what is sent afterwards is not part of it."""

    can_answer = False

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._turn = conversation.interrupt()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._turn is not None:
            conversation.tail.broadcast.followers.append(self)
            if not conversation.is_running:  # another process is told by letter, which may not get there
                conversation.when_accepted(lambda error: None if error is None else self.fail(error))

    async def wait(self, seconds: float = PATIENCE_SECONDS) -> Stopped:
        """Raises `AgentError` where the log cannot say any more that it is over."""
        if self._turn is None:
            return Stopped("nothing")
        give_up = asyncio.get_running_loop().time() + seconds
        try:
            while not self._over.done() and asyncio.get_running_loop().time() < give_up:
                await asyncio.wait([self._over], timeout=LOOK_SECONDS)
                if not self._over.done() and not self._conversation.is_running:
                    self._look_elsewhere()
            if self._over.done():
                self._over.result()
                return Stopped("over")
            return Stopped("requested", self._conversation.holder())
        finally:
            if self in self._conversation.tail.broadcast.followers:
                self._conversation.tail.broadcast.followers.remove(self)

    def _look_elsewhere(self) -> None:
        """Another process runs the turn, or did: it may have ended it meanwhile, or died."""
        conversation = self._conversation
        conversation.look()
        if not self._over.done() and not conversation.is_claimed_elsewhere and conversation.tail.idle:
            if conversation.state.turn is not None and conversation.state.turn == self._turn:
                conversation.interrupt(self._turn)
            else:
                self._end()

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    # -- called by the broadcast

    def show(self, live: LiveEntry) -> None:
        if isinstance(live.entry.record, TurnEnded) and self._turn in ("", live.entry.turn):
            self._end()

    def show_delta(self, live: LiveDelta) -> None:
        pass

    def fail(self, error: AgentError) -> None:
        if not self._over.done():
            self._over.set_exception(error)
