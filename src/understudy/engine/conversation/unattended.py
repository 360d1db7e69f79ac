"""Denies a question for a caller who cannot be asked, once nobody else can be, here or in another process of the database."""

import asyncio
from collections.abc import Awaitable, Callable

from understudy.engine.conversation.conversation import Conversation
from understudy.protocol.ops import Accepted, Decide
from understudy.store.log import Attendance

LOOK_SECONDS = 1.0


async def deny_if_unattended(
    conversation: Conversation, attendance: Attendance, op: Decide, submit: Callable[[], Awaitable[Accepted]]
) -> None:
    """Returns once the question is closed, or is put again here because somebody who could have answered it has left. Raises
    `AgentError`.
    """
    asked_at = conversation.state.asked_at.get(op.call_id, 0.0)
    key = (op.call_id, asked_at)
    if not conversation.begin_denying(key):
        return
    try:
        while _is_open(conversation, op.call_id, asked_at):
            if not await attendance.is_elsewhere(conversation.id):
                await _deny(conversation, key, submit)
                return
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        conversation.end_denying(key)


async def _deny(conversation: Conversation, key: tuple[str, float], submit: Callable[[], Awaitable[Accepted]]) -> None:
    if not _is_open(conversation, *key):
        return
    await submit()
    while _is_open(conversation, *key):  # noqa: ASYNC110  # the process that runs the turn has yet to record it
        await asyncio.sleep(LOOK_SECONDS)


def _is_open(conversation: Conversation, call_id: str, asked_at: float) -> bool:
    """Whether the question waits for somebody, and nobody who follows here could answer it."""
    if conversation.is_forgotten or conversation.state.asked_at.get(call_id) != asked_at:
        return False
    return call_id in conversation.state.questions and not any(each.can_answer for each in conversation.followers)
