"""`session/prompt` and `session/cancel`: a request is answered at the end of the turn that reads it."""

from contextlib import suppress

from understudy.engine.durable import Durable
from understudy.protocol.items import Message
from understudy.protocol.jsonrpc import INTERNAL_ERROR, Request
from understudy.servers.acp import params
from understudy.servers.acp.content import Json, pointed_at, read_prompt
from understudy.servers.acp.editor_peer import EditorPeer
from understudy.servers.acp.prompt import RunningPrompt
from understudy.servers.acp.session import EditorSession
from understudy.servers.acp.sessions import opened
from understudy.servers.failures import ProtocolError

CANCELLED: Json = {"stopReason": "cancelled"}


async def prompt(client: EditorPeer, request: Request) -> Json:
    """One that comes while a turn runs joins it, and is answered at its end, too."""
    asked = params.read(params.Prompt, request.params)
    session = await opened(client, asked.session_id)
    waiting = RunningPrompt(request.id, session.when_shown)
    prompts = session.prompts
    prompts.append(waiting)
    try:
        async with session.sending:
            content = await read_prompt(asked.prompt)
            if waiting.cancelled:
                return CANCELLED
            for path in pointed_at(asked.prompt) if client.gives_texts else ():
                session.handle.unsaved_texts().note_likely(path)
            await _send(session, waiting, Message("user", content))
            if waiting.cancelled:  # while it was on its way; what comes behind it begins a turn of its own
                await session.cancel_one(waiting)
        ended = await waiting.done
    finally:
        if waiting in prompts:
            prompts.remove(waiting)
    if waiting.cancelled or ended is None or ended.reason == "interrupted":
        return CANCELLED
    if ended.reason == "failed":
        raise ProtocolError(INTERNAL_ERROR, ended.message or "the turn failed", {"kind": "turn_failed"})
    return {"stopReason": "end_turn"}


async def _send(session: EditorSession, waiting: RunningPrompt, message: Message) -> None:
    handle = session.handle
    before, session.chosen = session.chosen, None
    op = handle.message(message, before)
    waiting.message_id = op.message.message_id
    session.projection.own.add(waiting.message_id)
    durable = Durable()
    following = handle.follow(waiting, only_its_turn=True)
    try:
        await handle.submit(op, following, durable)
        waiting.sent = True
        await durable
    except BaseException:
        following.stop()
        session.chosen = session.chosen or before
        raise


def cancel(client: EditorPeer, session_id: str) -> None:
    """A notification: for a session that is not open here there is nothing to be done."""
    with suppress(ProtocolError):
        session = client.session(session_id)
        session.handle.tasks.run(session.cancel())


def cancel_request(client: EditorPeer, request_id: int | str) -> None:
    """Of prompts: others are answered soon."""
    for session in client.sessions.values():
        for waiting in [waiting for waiting in session.prompts if waiting.request_id == request_id]:
            session.handle.tasks.run(session.cancel_one(waiting))
