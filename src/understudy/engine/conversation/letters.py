"""Ops that wait: letters to a turn of another process, letters from other processes, and messages for the turn after the running
one.
"""

import logging
from collections import deque
from collections.abc import Sequence

from understudy.engine.log.tail import Tail, Told
from understudy.errors import AgentError, BadRequest, StoreError
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Archive, Cancel, Compact, Decide, Delete, Interrupt, Op, Rename, Send, Undo
from understudy.protocol.records import Entry, TurnDropped, TurnQueued, UserMessage
from understudy.store.log import EventLog, Letter

logger = logging.getLogger(__name__)

CANCELLED_BEFORE = "the message was cancelled before its turn began"
FORK_WHILE_RUNNING = "a turn is running: interrupt it, or wait for its end, before continuing from an earlier message"


class Letters:
    """The letters of one conversation, to and from the process that holds it. A posted letter is durable once it is on disk."""

    def __init__(self, conversation_id: ConversationId, log: EventLog, tail: Tail) -> None:
        self._id = conversation_id
        self._log = log
        self._tail = tail
        self.taken = self._before = 0  # the number of the last letter read here
        self._posting: deque[list[Told]] = deque()  # letters on their way to the disk, in order, each with its callbacks
        self.compaction_left = False  # somebody asked a turn for a summary, but the turn had ended
        self.decisions_left: list[Decide] = []  # for a turn whose process ended before it read them
        self.ends_left: set[str] = set()  # turns that a dead process was asked to interrupt; "": whichever ran
        self.sent_by = LOCAL_NAME  # the sender of the last unread message
        self.in_hand = False  # read messages are about to be appended, and leave the box with that
        self.unread: set[str] = set()  # our messages that are not known to be in the log yet

    @property
    def posting(self) -> bool:
        return bool(self._posting)

    def post(self, op: Op, done: Told | None = None) -> None:
        told: list[Told] = []
        self._posting.append(told)
        if isinstance(op, Send):
            self.unread.add(op.message.message_id)

        def on_disk(error: BaseException | None) -> None:
            self._posting.popleft()
            reason = error if error is None or isinstance(error, AgentError) else StoreError(f"conversation store: {error}")
            if reason is not None and isinstance(op, Send):
                self.unread.discard(op.message.message_id)
            if reason is not None and not told and done is None:
                logger.error("a letter to %s is lost: %s", self._id, reason)
            for tell in (*told, *([done] if done else [])):
                tell(reason)

        self._log.post(self._id, op, on_disk)

    def when_posted(self, callback: Told) -> None:
        """Call back once the last letter is on disk."""
        self._posting[-1].append(callback)

    def seen(self, entries: Sequence[Entry]) -> None:
        """Note which of our messages the log shows as read."""
        for entry in entries:
            if isinstance(entry.record, UserMessage):
                self.unread.discard(entry.record.message_id)
            elif isinstance(entry.record, TurnQueued):
                self.unread.discard(entry.record.message.message_id)
            elif isinstance(entry.record, TurnDropped):
                self.unread.discard(entry.record.message_id)

    async def waiting(self) -> list[Letter]:
        """Letters for us that were not read yet."""
        letters = await self._log.letters(self._id)
        return [letter for letter in letters if letter.number > self.taken] if letters else []

    def note_read(self, letter: Letter) -> None:
        """Remove the letter and those before it from the box, together with the batch that records their contents."""
        self._before, self.taken = self.taken, letter.number
        self._tail.take_letters(self.taken)

    def take_in_hand(self) -> None:
        """The messages that were read are part of the next append."""
        self.in_hand = False
        self._tail.take_letters(self.taken)

    def put_back(self) -> None:
        """What was taken last could not be used: it stays in the box."""
        self.taken = self._before
        self.in_hand = False
        self._forget_what_was_left()
        self._tail.take_letters(0)

    def read_again(self) -> None:
        """The records of the taken letters are lost, so all letters still in the box count as new."""
        self.taken = self._before = 0
        self.in_hand = False
        self._forget_what_was_left()
        self._tail.take_letters(0)

    def _forget_what_was_left(self) -> None:
        self.compaction_left = False
        self.decisions_left = []
        self.ends_left.clear()

    async def end_was_asked_of(self, turn: str) -> bool:
        """Whether somebody told this turn to end and its process died before reading that."""
        asked = {letter.op.turn for letter in await self.waiting() if isinstance(letter.op, Interrupt)} | self.ends_left
        return not asked.isdisjoint((turn, ""))

    def forget_ends(self) -> None:
        """No turn is left that these interrupts could be meant for."""
        self.ends_left.clear()

    async def unread_messages(self) -> list[UserMessage]:
        """Messages for a turn that ended before it read them. Of the other letters to that turn, a request for a summary goes to
        the next turn, answers count if the turn is resumed, and an interrupt prevents that; the rest mean nothing any more. All
        letters stay in the box until the messages are appended: earlier records, such as the end of a turn that was cut off, do not
        hold what the letters say.
        """
        letters = await self.waiting()
        if not letters:
            if self.in_hand:
                self.take_in_hand()
            self.sent_by = LOCAL_NAME
            return []
        if self._log.is_remote:  # a sender on another host does not take the conversation over
            for letter in letters:
                if isinstance(letter.op, Rename | Undo | Delete | Archive):
                    self._log.post(self._id, letter.op)
        self._before, self.taken, self.in_hand = self.taken, letters[-1].number, True
        self.compaction_left = self.compaction_left or any(isinstance(letter.op, Compact) for letter in letters)
        self.decisions_left += [letter.op for letter in letters if isinstance(letter.op, Decide)]
        self.ends_left.update(letter.op.turn for letter in letters if isinstance(letter.op, Interrupt))
        sent = [letter.op for letter in letters if isinstance(letter.op, Send)]
        self.unread.difference_update(op.message.message_id for op in sent)
        taken_back = {letter.op.message_id for letter in letters if isinstance(letter.op, Cancel)}
        wanted = [op for op in sent if op.message.message_id not in taken_back]
        for op in sent:
            if op not in wanted:  # those who wait for its turn learn from the log that there will be none
                self._tail.append(TurnDropped(op.message.message_id), turn=self._tail.state.turn or "0")
        if self.in_hand and not wanted:
            self.take_in_hand()
        self.sent_by = wanted[-1].by if wanted else LOCAL_NAME
        return [op.message for op in wanted]


class HeldMessage:
    """A message and those who wait for its outcome."""

    def __init__(self, op: Send) -> None:
        self.op = op
        self.told: list[Told] = []

    def tell(self, error: AgentError) -> None:
        for tell in self.told:
            tell(error)


class HeldMessages:
    """Messages that came after the running turn was told to end, in order of arrival. Once that turn is over, the first message
    begins a turn and the others join it.
    """

    def __init__(self) -> None:
        self._messages: list[HeldMessage] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, op: Send) -> None:
        self._messages.append(HeldMessage(op))

    def when_durable(self, callback: Told) -> None:
        """Call back once the last message is durable, or with the error if it failed."""
        self._messages[-1].told.append(callback)

    def take_all(self) -> list[HeldMessage]:
        taken, self._messages = self._messages, []
        return taken

    def join(self, tail: Tail, turn: str) -> None:
        """A second interrupt applies to what was sent after the first: those messages count as accepted and unread, like other
        input.
        """
        for held in self.take_all():
            if held.op.message.parent_message_id is not None:
                held.tell(BadRequest(FORK_WHILE_RUNNING))
                continue
            try:
                tail.append(held.op.message, turn=turn)
            except AgentError as error:
                held.tell(error)
            else:
                for told in held.told:
                    tail.when_durable(told)

    def take_back(self, message_id: str, reason: AgentError) -> bool:
        """The sender takes the message back. False if it is not held here."""
        for held in self._messages:
            if held.op.message.message_id == message_id:
                self._messages.remove(held)
                held.tell(reason)
                return True
        return False

    def fail(self, reason: AgentError) -> None:
        for held in self.take_all():
            held.tell(reason)
