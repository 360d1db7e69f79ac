"""Rereads from the log what the state does not keep: what a turn did, and where a message went."""

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from understudy.engine.log.ledger import Ledger, Work
from understudy.protocol.ops import Send
from understudy.protocol.records import TurnEnded, TurnQueued, TurnStarted, UserMessage
from understudy.store.log import EventLog

if TYPE_CHECKING:
    from understudy.engine.conversation.conversation import Conversation
    from understudy.engine.conversation.shell import Shell


PAGE = 500


async def read_past_work(conversation: "Conversation", turn: str) -> Work | None:
    """Read up to the end of the turn, serving others between two pages."""
    ledger, after, begun = Ledger(), 0, False
    while page := await conversation.read(after, PAGE):
        for entry in page:
            begun = begun or (isinstance(entry.record, TurnStarted) and entry.record.turn_id == turn)
            if begun and entry.turn == turn:
                ledger.apply(entry)
                if isinstance(entry.record, TurnEnded):
                    return ledger.work(turn)
        after = page[-1].seq
        await asyncio.sleep(0)
    return ledger.work(turn)


READ_AT_ONCE = 128  # records in one step of the event loop


async def seek_message(shell: "Shell", log: EventLog, is_it: Callable[[str], bool], after: int) -> str | None:
    """The id of the message, which is not in the log before record `after`. None: its sender took it back unread.

    The inbox is read first and then the log on disk: the commit that writes a letter's message to the log also removes the letter
    from the inbox.
    """
    state = shell.state
    known: tuple[Collection[str], ...] = (state.message_ends, state.queued, shell.unread)
    for message_ids in known:
        if (found := next(filter(is_it, message_ids), None)) is not None:
            return found
    for letter in await log.letters(shell.id):
        if isinstance(letter.op, Send) and is_it(letter.op.message.message_id):
            return letter.op.message.message_id
    while entries := await log.read(shell.id, after, READ_AT_ONCE):
        for entry in entries:
            message = entry.record.message if isinstance(entry.record, TurnQueued) else entry.record
            if isinstance(message, UserMessage) and is_it(message.message_id):
                return message.message_id
        after = entries[-1].seq
    return None
