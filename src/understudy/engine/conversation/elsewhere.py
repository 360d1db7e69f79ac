"""What other processes do to a conversation: append to it, leave ops for a turn that runs here, delete it, or die with its turn."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from understudy.engine.conversation.phases import LEAVING, MAY_BEGIN, OURS, Given
from understudy.engine.conversation.shell import Shell
from understudy.engine.ops.sending import begin_next
from understudy.engine.ops.table import way_of
from understudy.errors import AgentError, ConversationBusy, HostAway, StandsElsewhere, StoreError, UnknownConversation, report_bug
from understudy.protocol.ops import Delete, Resume, Send
from understudy.protocol.records import TurnDropped
from understudy.store.log import Letter, Position

logger = logging.getLogger(__name__)


class TakenUp(NamedTuple):
    """`unrecorded`: letters up to this number needed no record under this epoch."""

    unrecorded: int = 0
    epoch: int = 0
    deletes: bool = False  # a letter asks for deletion


class Elsewhere:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    # -- looking

    async def look(self, position: Position | None = None) -> None:
        """See what other processes have done: letters to a turn of ours, a turn of theirs, or the death of its process.

        `position`: the store's position of the log, if the caller knows it.
        """
        shell = self._shell
        if shell.phase is LEAVING:
            return
        if not shell.has_claim:
            await shell.alone(self._see_what_others_did(position))
        elif shell.turn_runs and (position is None or position.letters):
            await self.read_letters()
        elif shell.runs_commands and (position is None or position.letters):
            await shell.alone(self._read_letters_between_turns())

    def look_soon(self) -> None:
        self._shell.run_beside(self._look_loudly())

    async def _look_loudly(self) -> None:
        try:
            await self.look()
        except AgentError as error:
            logger.warning("cannot see what other processes write to %s: %s", self._shell.id, error)
        except Exception as error:
            report_bug(logger, error, "in seeing what other processes write to %s", self._shell.id)

    async def _see_what_others_did(self, position: Position | None) -> None:
        shell = self._shell
        if shell.has_claim or shell.phase is LEAVING:
            return
        if position is None or shell.failure or position.last_seq != shell.state.last_seq:
            await shell.catch_up()
        if shell.failure:  # what ran here is still being stopped
            return
        if shell.depends_on_others and shell.phase in MAY_BEGIN and not await shell.is_claimed():
            await self._take_over()
            if shell.is_on_another_host and shell.state.turn is not None:
                await shell.show_text_elsewhere()
        elif shell.state.turn is not None:
            await shell.show_text_elsewhere()

    async def note_deleted(self) -> None:
        """The store no longer has the conversation: tell those who wait or watch here."""
        await self._shell.alone(self._note_deleted())

    async def _note_deleted(self) -> None:
        shell = self._shell
        if shell.has_claim or not shell.published or await shell.is_stored():
            return
        shell.note(Given.DELETED)
        shell.forget_unread()
        shell.fail_viewers(UnknownConversation("the conversation was deleted"))

    # -- taking over

    async def _take_over(self) -> None:
        """The process that ran the turn has ended it or died: handle its letters and its waiters here."""
        shell = self._shell
        try:
            await shell.take_claim()
            cut = shell.state.turn
            await shell.begin_with_letters()
            if not shell.turn_runs and cut is not None:
                await shell.resume_cut_turn()
            if shell.state.queued and not shell.turn_runs:
                await begin_next(shell)
            if cut is not None and shell.turn_id == cut:
                shell.tell_taken_over()
        except StandsElsewhere:
            if shell.state.turn is not None and not shell.unread and shell.claim.may_ask_again():
                shell.post(Resume())  # no process has it on its host: ask the process that serves that host to look
        except ConversationBusy:
            return
        except AgentError as error:
            is_known = isinstance(error, UnknownConversation | HostAway)  # and the people concerned have been told
            level = logging.INFO if is_known else logging.ERROR
            logger.log(level, "%s cannot be continued: %s", shell.id, error)
            shell.forget_unread()
            shell.fail_waiting(error)

    # -- on the conversation's host, while no process has it

    async def take_up(self) -> TakenUp:
        """Settle what a dead process left, and perform the letters in the inbox. Raises `AgentError`."""
        return await self._shell.alone(self._take_up())

    async def _take_up(self) -> TakenUp:
        shell = self._shell
        if shell.has_claim or shell.phase not in MAY_BEGIN:
            return TakenUp()
        try:
            await shell.take_claim()
        except ConversationBusy:
            return TakenUp()
        try:
            await shell.resume_cut_turn()
        except StoreError:
            raise
        except AgentError as error:  # its folder has been removed, for example; the letters are answered all the same
            logger.info("the turn that was cut off in %s cannot be resumed: %s", shell.id, error)
        unrecorded = 0
        for letter in await shell.letters_waiting():
            if shell.has_read(letter):
                continue
            if shell.turn_runs and shell.is_ending:
                shell.leave_letters()
                break
            if isinstance(letter.op, Delete) and letter.op.there and not shell.turn_runs:
                return TakenUp(deletes=True)
            before = shell.state.last_seq
            await self._do_left(letter)
            unrecorded = letter.number if shell.state.last_seq == before else 0
        if shell.state.queued and not shell.turn_runs:
            await begin_next(shell)
        if unrecorded:
            await shell.all_written()
        return TakenUp(unrecorded, shell.tail.epoch)

    async def _do_left(self, letter: Letter) -> None:
        shell, op, turn = self._shell, letter.op, self._shell.turn_id
        shell.note_read(letter)
        if turn is not None:
            way_of(op).to_turn(shell, op, turn)
            return
        try:
            await way_of(op).when_idle(shell, op)
        except StoreError:
            raise
        except AgentError as error:
            logger.info("%s that was left for %s cannot be done: %s", type(op).__name__, shell.id, error)
            if isinstance(op, Send):
                shell.note_read(letter)  # because the failed `Send` was put back
                shell.append(TurnDropped(op.message.message_id, str(error)), turn=shell.state.turn or "0")

    # -- letters to a turn that runs here

    async def read_letters(self) -> None:
        """Perform ops that other processes left for the running turn. The inbox is read outside the queue, so that a slow log does
        not delay an interrupt; performing the ops never waits.
        """
        letters = await self._shell.letters_waiting()
        if letters:
            await self._shell.alone(self._take_letters(letters))

    async def _read_letters_between_turns(self) -> None:
        """No turn runs here, but commands that outlive their turns keep the claim, so no other process can perform the letters."""
        shell = self._shell
        if shell.phase is not OURS:
            return
        letters = await shell.letters_waiting()
        if shell.fixes is not None:
            await self._do_between_turns(letters)
            return
        for letter in letters:
            await way_of(letter.op).between_turns(shell, letter.op)
        if letters:
            await shell.begin_with_letters()
        if not shell.turn_runs and shell.take_compaction_left():
            await shell.begin_compaction(shell.state.owner)

    async def _do_between_turns(self, letters: Sequence[Letter]) -> None:
        """Where senders may be on other hosts, and do not take the conversation over: each letter is performed or refused here."""
        shell = self._shell
        for letter in letters:
            if shell.has_read(letter):
                continue
            if shell.turn_runs and shell.is_ending:
                shell.leave_letters()
                return
            if isinstance(letter.op, Delete) and letter.op.there and not shell.turn_runs:
                await way_of(letter.op).between_turns(shell, letter.op)
                return  # it stays in the inbox: once the commands have ended, the worker deletes the conversation
            await self._do_left(letter)
        if shell.state.queued and not shell.turn_runs:
            await begin_next(shell)

    async def _take_letters(self, letters: Sequence[Letter]) -> None:
        shell = self._shell
        turn = shell.turn_id
        if turn is None:
            return  # the turn has ended: whoever left the letters takes the conversation over
        for letter in letters:
            if shell.has_read(letter):
                continue  # two reads of the inbox overlapped
            if not shell.turn_runs:  # the previous letter ended the turn, so this one is for the next
                await shell.begin_with_letters()
                return
            if shell.is_ending:
                shell.leave_letters()
                return
            shell.note_read(letter)
            if not way_of(letter.op).to_turn(shell, letter.op, turn):
                logger.warning("a letter to %s is of no use to a running turn: %s", shell.id, type(letter.op).__name__)
