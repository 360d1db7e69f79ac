"""Calls that wait for a running turn (`codex-reply` without a prompt), and calls that wait only for a while."""

import asyncio

from understudy.engine.handle import Handle
from understudy.errors import AgentError, ConversationBusy, InvalidArguments
from understudy.protocol.ops import Resume
from understudy.protocol.records import TurnEnded
from understudy.servers.mcp.call import LATER, Call, CallViewer, Later

READ_BACK = 256  # records per read, in search of the end of the last turn
BEGIN_SECONDS = 10.0  # for a worker to begin a turn
LOOK_SECONDS = 0.05


def answer_after(viewer: CallViewer, seconds: float) -> None:
    """If the turn is not over by then, answer the call anyway; the turn continues."""
    if not viewer.call.answered:
        timer = viewer.call.client.loop.call_later(seconds, viewer.answer_unfinished)
        viewer.call.when_answered(lambda _: timer.cancel())


async def wait_on(call: Call, handle: Handle, viewer: CallViewer, seconds: float | None) -> Later:
    """Answer with the end of the running turn, wherever it runs; if none runs, with the end of the last turn.

    `seconds`: wait at most so long.
    """
    viewer.only_waits = True
    if handle.facts.turn is None:
        await handle.durable()  # if a turn has just ended, its end may not be on disk yet
        await _until_begun(call, handle)
    turn = handle.facts.turn
    if turn is None:
        ended = await _last_end(handle)
        if ended is None:
            viewer.leave()
            raise InvalidArguments(f"nothing is running in {handle.id}, and nothing has run\nGive a message as `prompt`.")
        viewer.following.turn, record = ended
        viewer.ended(record)
        return LATER
    viewer.following.message_id = handle.message_of_turn(turn) or ""
    viewer.following.leads = True
    viewer.following.follow_turn(turn)
    viewer.following.go_live()
    if seconds is not None:
        answer_after(viewer, seconds)
    call.when_cancelled(lambda: viewer.answer_failure("the call was cancelled; the turn goes on"))
    if not handle.facts.runs_here:
        try:
            await handle.submit(Resume())
        except ConversationBusy:
            pass  # another process runs it
        except AgentError as error:
            viewer.failed(error)
            return LATER
    viewer.following.put_open_questions()
    viewer.watching()
    return LATER


async def _until_begun(call: Call, handle: Handle) -> None:
    """What was sent just before may still lie in the inbox of a worker: the turn that it begins is the one to wait for."""
    log, loop = call.client.engine.log, call.client.loop
    give_up = loop.time() + BEGIN_SECONDS
    while log.is_remote and handle.facts.turn is None and loop.time() < give_up:
        position = (await log.positions([handle.id])).get(handle.id)
        if position is None or not position.goes_beyond(handle.facts.last_seq):
            return
        await asyncio.sleep(LOOK_SECONDS)
        await call.client.engine.find(call.client.caller, handle.id)  # also reads what others have written


async def _last_end(handle: Handle) -> tuple[str, TurnEnded] | None:
    before = handle.facts.last_seq
    while before > 0:
        after = max(0, before - READ_BACK)
        for entry in reversed(await handle.read(after, before - after)):
            if isinstance(entry.record, TurnEnded):
                return entry.turn, entry.record
        before = after
    return None
