"""What other processes do to a conversation: append to it, leave ops for a turn that runs here, delete it, or die with its turn."""

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.engine.long_commands import ARCHIVED, DELETED
from understudy.engine.phases import LEAVING, MAY_BEGIN, OURS, Given
from understudy.errors import AgentError, ConversationBusy, UnknownConversation, report_bug
from understudy.protocol.ops import Archive, Cancel, Compact, Decide, Delete, Interrupt, Rename, Send, Undo
from understudy.protocol.records import TurnQueued
from understudy.store.log import EventLog, Letter, Position

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation

logger = logging.getLogger(__name__)


class Elsewhere:
    def __init__(self, conversation: "Conversation", log: EventLog) -> None:
        self._conversation = conversation
        self._log = log
        self.letters_left = False  # in the inbox, for the turn after this one

    # -- who has it

    async def has_claim(self) -> bool:
        return await self._log.holder(self._conversation.id) is not None

    async def may_have_turn(self) -> bool:
        """Whether another process has it, and not only for commands that outlive their turns."""
        if not await self.has_claim():
            return False
        state = self._conversation.state
        if state.sessions.running:
            await self._conversation.claim.catch_up()
        state = self._conversation.state
        return state.turn is not None or not state.sessions.running

    async def holder(self) -> int | None:
        """The process that runs the turn, where that can be told."""
        if self._conversation.claim.is_held:
            return os.getpid()
        holder = await self._log.holder(self._conversation.id, identify=True)
        return None if holder is None else holder.process

    @property
    def is_depended_on(self) -> bool:
        """Somebody here waits for a turn of another process, or for it to read a message."""
        conversation = self._conversation
        return not conversation.running and bool(conversation.waiting or conversation.letters.unread)

    # -- looking

    async def look(self, position: Position | None = None) -> None:
        """See what other processes have done: letters to a turn of ours, a turn of theirs, or the death of its process.

        `position` is where the store says that it stands, for those who have asked already.
        """
        conversation = self._conversation
        if conversation.standing.phase is LEAVING:
            return
        if not conversation.claim.is_held:
            await conversation.queue.run(self._see_what_others_did(position))
        elif conversation.running and (position is None or position.letters):
            await self.read_letters()
        elif conversation.long_commands and (position is None or position.letters):
            await conversation.queue.run(self._read_letters_between_turns())

    def look_soon(self) -> None:
        self._conversation.tasks.run(self._look_loudly())

    async def _look_loudly(self) -> None:
        try:
            await self.look()
        except AgentError as error:
            logger.warning("cannot see what other processes write to %s: %s", self._conversation.id, error)
        except Exception as error:
            report_bug(logger, error, "in seeing what other processes write to %s", self._conversation.id)

    async def _see_what_others_did(self, position: Position | None) -> None:
        conversation, tail = self._conversation, self._conversation.tail
        if conversation.claim.is_held or conversation.standing.phase is LEAVING:
            return
        if position is None or tail.failure or position.last_seq != tail.state.last_seq:
            await conversation.claim.catch_up()
        if tail.failure:  # what ran here is still being stopped
            return
        if self.is_depended_on and conversation.standing.phase in MAY_BEGIN and not await self.has_claim():
            await self._take_over()
        elif tail.state.turn is not None and tail.broadcast.followers:
            saved = await self._log.saved_text(conversation.id)
            if saved is not None and saved.after >= tail.broadcast.published:
                tail.broadcast.publish_foreign_text(saved, tail.state.turn)

    async def note_deleted(self) -> None:
        """The store does not have it any more: whoever waits or watches here is told."""
        await self._conversation.queue.run(self._note_deleted())

    async def _note_deleted(self) -> None:
        conversation, tail = self._conversation, self._conversation.tail
        if conversation.claim.is_held or not tail.broadcast.published:
            return
        if await self._log.positions([conversation.id]):
            return
        conversation.standing.note(Given.DELETED)
        conversation.letters.unread.clear()
        tail.broadcast.fail(UnknownConversation("the conversation was deleted"))

    # -- taking over

    async def _take_over(self) -> None:
        """The process that ran the turn has ended it, or died. What was left for it, and who waits for it, is ours now."""
        conversation = self._conversation
        try:
            await conversation.claim.take()
            cut = conversation.state.turn
            await self.begin_with_letters()
            if not conversation.running and cut is not None:
                await conversation.beginning.resume()
            if conversation.state.queued and not conversation.running:
                from understudy.engine.queued_turns import begin_next  # only some doors queue any

                await begin_next(conversation)
            if conversation.running.turn is not None and conversation.running.turn.turn_id == cut:
                for following in tuple(conversation.waiting):
                    following.taken_over()
        except ConversationBusy:
            return
        except AgentError as error:
            level = logging.INFO if isinstance(error, UnknownConversation) else logging.ERROR  # deleting is nobody's fault
            logger.log(level, "%s cannot be continued: %s", conversation.id, error)
            conversation.letters.unread.clear()
            conversation.fail_waiting(error)

    async def begin_with_letters(self) -> None:
        """Under the claim: messages that were left for a turn which has ended begin another one."""
        messages = await self._conversation.letters.unread_messages()
        if messages:
            by = self._conversation.letters.sent_by
            await self._conversation.begin(messages[-1], *messages[:-1], by=by, promised=True)

    # -- letters to a turn that runs here

    async def read_letters(self) -> None:
        """Ops that other processes have left for the running turn. The inbox is read outside the queue, so that a slow log
        does not hold up an interrupt; acting upon them waits for nothing.
        """
        letters = await self._conversation.letters.waiting()
        if letters:
            await self._conversation.queue.run(self._take_letters(letters))

    async def _read_letters_between_turns(self) -> None:
        """No turn runs here, but commands that outlive theirs keep the claim: nobody else can do what the letters ask for."""
        conversation = self._conversation
        if conversation.standing.phase is not OURS:
            return
        letters = await conversation.letters.waiting()
        for letter in letters:
            if isinstance(letter.op, Delete | Archive):  # whoever left it does the rest
                conversation.long_commands.end_soon(DELETED if isinstance(letter.op, Delete) else ARCHIVED)
            elif isinstance(letter.op, Rename):
                from understudy.engine.renaming import rename_here  # seldom asked for

                rename_here(conversation, letter.op)
            elif isinstance(letter.op, Undo):
                from understudy.engine.undoing import undo_for_another  # seldom asked for

                await undo_for_another(conversation, letter.op)
        if letters:
            await self.begin_with_letters()
        if not conversation.running and conversation.letters.compaction_left:
            conversation.letters.compaction_left = False
            await conversation.beginning.begin_compaction(conversation.state.owner)

    async def _take_letters(self, letters: Sequence[Letter]) -> None:
        conversation = self._conversation
        turn = conversation.running.turn
        if turn is None:
            return  # it has ended meanwhile: whoever left them takes the conversation over
        for letter in letters:
            if letter.number <= conversation.letters.taken:
                continue  # read twice at the same time
            if not conversation.running:  # ended by the letter before: this one is for the turn after it
                await self.begin_with_letters()
                return
            if conversation.running.is_ending:
                self.letters_left = True
                conversation.claim.mistrust()
                return
            conversation.letters.note_read(letter)
            match letter.op:
                case Send(message=message, own_turn=True):
                    conversation.tail.append(TurnQueued(message), turn=turn.turn_id)
                    conversation.queued_by[message.message_id] = letter.op.by
                case Cancel(message_id=message_id):
                    from understudy.engine.queued_turns import drop_here  # seldom asked for

                    drop_here(conversation, message_id)
                case Send(message=message):
                    conversation.tail.append(message, turn=turn.turn_id)
                case Interrupt(turn=meant):
                    if meant in ("", turn.turn_id):
                        conversation.running.interrupt()
                case Compact():
                    turn.compact_soon()
                case Decide():
                    conversation.decide_here(letter.op, turn.turn_id)
                case Rename():
                    from understudy.engine.renaming import rename_here  # seldom asked for

                    rename_here(conversation, letter.op)
                case Undo():
                    from understudy.engine.undoing import TURN_RUNS, refuse  # seldom asked for

                    refuse(conversation, letter.op, TURN_RUNS)
                case _:
                    logger.warning("a letter to %s is of no use to a running turn: %s", conversation.id, type(letter.op).__name__)
