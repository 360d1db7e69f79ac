"""Ends a turn and waits until the log says that it is over, whichever process runs it."""

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

LOOK_SECONDS = 0.02  # how often another process's claim is checked


class Stopped(msgspec.Struct, frozen=True):
    """`requested`: the turn was told to end and has not ended yet; `holder` is the process that runs it, if known."""

    status: Literal["over", "nothing", "requested"]
    holder: int | None = None


async def stop_turn(conversation: Conversation, submit: Callable[[Interrupt], Awaitable[Accepted]], seconds: float) -> Stopped:
    """Tell the turn to end at once, so that later messages are not part of it, and wait for its end.

    Raises `AgentError` if the log can no longer say that it is over.
    """
    lost = conversation.turn_runs and conversation.failure is not None  # its end may be in the log, and another turn behind it
    stopped = await _stop(conversation, submit, seconds)
    if lost and stopped.status == "over" and (again := await _stop(conversation, submit, seconds)).status != "nothing":
        return again
    return stopped


async def _stop(conversation: Conversation, submit: Callable[[Interrupt], Awaitable[Accepted]], seconds: float) -> Stopped:
    end = _TurnEnd()
    following = Following(conversation, end)
    following.go_live()
    try:
        accepted = await submit(Interrupt())
        if accepted.turn is None:
            await conversation.committed()  # the end of the turn before this answer may be on its way to the disk
            conversation.check_log()
            return Stopped("nothing")
        end.turn = accepted.turn
        if not conversation.turn_runs:  # another process is told by letter, which may not arrive
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
            continue  # it ends here, or its end is on its way to the disk: there is nothing to read yet
        await conversation.look()  # another process runs the turn; it may have ended it since, or died
        if end.over.done() or await conversation.is_claimed() or not conversation.is_written or conversation.unread:
            continue
        if conversation.is_on_another_host and end.turn and conversation.state.turn == end.turn:
            continue  # the turn stays open on that host
        if end.turn and conversation.state.turn == end.turn:
            await submit(Interrupt(end.turn))
        else:  # a process about to release its claim held it without a turn to interrupt
            return Stopped("over" if end.turn else "nothing")
    if end.over.done():
        end.over.result()
        return Stopped("over")
    return Stopped("requested", await conversation.holder())


class _TurnEnd(QuietViewer):
    """A viewer that waits for the end of one turn, or of any turn if the id is not known."""

    def __init__(self) -> None:
        self.turn: str | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def entry(self, live: LiveEntry) -> None:
        if isinstance(live.entry.record, TurnEnded) and self.turn in ("", live.entry.turn) and not self.over.done():
            self.over.set_result(None)

    def failed(self, error: AgentError) -> None:
        if not self.over.done():
            self.over.set_exception(error)
            self.over.exception()  # the waiter may have left
