"""The open questions of all conversations, whichever process asked them."""

import logging

import msgspec

from understudy.engine.engine import Engine
from understudy.errors import AgentError, Damaged, UnknownConversation
from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Question

logger = logging.getLogger(__name__)

PAGE = 200


class OpenQuestion(msgspec.Struct, frozen=True):
    conversation_id: ConversationId
    title: str
    cwd: str
    turn: str
    question: Question
    asked_at: float  # seconds since the epoch
    expires_at: float | None  # when it is answered by a no
    attended: bool  # a process waits for the answer; otherwise answering resumes the turn


async def open_questions(engine: Engine, caller: Caller) -> list[OpenQuestion]:
    """The questions that the caller may read, the oldest first. No conversation is taken over for this."""
    found: list[OpenQuestion] = []
    for archived in (False, True):
        cursor: str | None = None
        while True:
            page = await engine.list(caller, PAGE, cursor, archived=archived)
            for listed in page.rows:
                if listed.summary.pending:
                    found += await _of(engine, caller, listed.conversation_id, listed.summary.title)
            cursor = page.next_cursor
            if cursor is None:
                break
    return sorted(found, key=lambda each: (each.asked_at, each.conversation_id, each.question.call_id))


async def _of(engine: Engine, caller: Caller, conversation_id: ConversationId, title: str) -> list[OpenQuestion]:
    try:
        handle = await engine.find(caller, conversation_id)
    except UnknownConversation:  # deleted meanwhile
        return []
    except Damaged as error:  # the other conversations' questions still count
        logger.warning("a question of %s cannot be shown: %s", conversation_id, error)
        return []
    facts = handle.facts
    try:
        seconds = handle.setup().config.questions.timeout_seconds
    except AgentError:  # its folder is gone or the configuration is wrong: still listed; answering it tells the reason
        seconds = 0.0
    attended = facts.runs_here or await engine.log.holder(conversation_id) is not None
    return [
        OpenQuestion(
            conversation_id, title, facts.cwd, facts.turn or "", question, asked := facts.asked_at.get(call_id, 0.0),
            asked + seconds if seconds else None, attended,
        )
        for call_id, question in facts.questions.items()
    ]  # fmt: skip
