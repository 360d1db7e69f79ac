"""Ending a turn and waiting until the log says that it is over, whichever process runs it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from understudy.engine.conversation.conversation import Conversation
from understudy.engine.log.broadcast import LiveEntry
from understudy.engine.viewers.following import Following
from understudy.engine.viewers.viewer import QuietViewer
from understudy.errors import AgentError
from understudy.protocol.ops import Accepted, Interrupt
from understudy.protocol.records import TurnEnded

LOOK_SECONDS = 0.02  # how often the claim of another process is looked at


class Stopped(msgspec.Struct, frozen=True):
    """`requested`: the turn was told to end and has not ended yet; `holder` is the process that runs it, where that is known."""

    status: Literal["over", "nothing", "requested"]
    holder: int | None = None


async def stop_turn(conversation: Conversation, submit: Callable[[Interrupt], Awaitable[Accepted]], seconds: float) -> Stopped:
    """The turn is told to end at once, so what is sent afterwards is not part of it.

    Raises `AgentError` where the log cannot say any more that it is over.
    """
    end = _TurnEnd()
    following = Following(conversation, end)
    following.go_live()
    try:
        accepted = await submit(Interrupt())
        if accepted.turn is None:
            return Stopped("nothing")
        end.turn = accepted.turn
        if not conversation.turn_runs:  # another process is told by letter, which may not get there
            conversation.when_durable(lambda error: None if error is None else end.failed(error))
        return await _until_over(conversation, end, submit, seconds)
    finally:
        following.stop()


async def _until_over(
    conversation: Conversation, end: "_TurnEnd", submit: Callable[[Interrupt], Awaitable[Accepted]], seconds: float
) -> Stopped:
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while not end.over.done() and loop.time() < give_up:
        await asyncio.wait([end.over], timeout=LOOK_SECONDS)
        if end.over.done() or conversation.turn_runs or not conversation.is_written:
            continue  # it ends here, or its end is on its way to the disk: nothing has to be read for that
        await conversation.look()  # another process runs the turn, or did: it may have ended it meanwhile, or died
        if end.over.done() or await conversation.is_claimed() or not conversation.is_written or conversation.unread:
            continue
        if conversation.is_on_another_host and end.turn and conversation.state.turn == end.turn:
            continue  # it was left there
        if end.turn and conversation.state.turn == end.turn:
            await submit(Interrupt(end.turn))
        else:  # a process that was about to let go had a claim, and no turn that could have been interrupted
            return Stopped("over" if end.turn else "nothing")
    if end.over.done():
        end.over.result()
        return Stopped("over")
    return Stopped("requested", await conversation.holder())


class _TurnEnd(QuietViewer):
    """A viewer who waits for the end of one turn; of any, where its id is not known."""

    def __init__(self) -> None:
        self.turn: str | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def entry(self, live: LiveEntry) -> None:
        if isinstance(live.entry.record, TurnEnded) and self.turn in ("", live.entry.turn) and not self.over.done():
            self.over.set_result(None)

    def failed(self, error: AgentError) -> None:
        if not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # whoever waited may have left
