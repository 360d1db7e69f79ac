"""Ops that wait: for a turn that another process runs, those that were left for ours, and messages for the turn after it."""

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
    """Those of one conversation, to and from the process that holds it. A letter that was posted is durable once it is on disk."""

    def __init__(self, conversation_id: ConversationId, log: EventLog, tail: Tail) -> None:
        self._id = conversation_id
        self._log = log
        self._tail = tail
        self.taken = self._before = 0  # the number of the last letter read here
        self._posting: deque[list[Told]] = deque()  # on their way to the disk, in order, and who is told
        self.compaction_left = False  # somebody asked for it, and the turn they asked had ended
        self.decisions_left: list[Decide] = []  # about a turn whose process ended before it read them
        self.ends_left: set[str] = set()  # turns that were to be interrupted, likewise; empty: whichever ran
        self.sent_by = LOCAL_NAME  # the last of the unread messages that were read
        self.in_hand = False  # messages were read that are to be appended, and leave the box with that
        self.unread: set[str] = set()  # messages of ours that are not in the log yet, as far as we know

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
        """Once the last letter is on disk."""
        self._posting[-1].append(callback)

    def seen(self, entries: Sequence[Entry]) -> None:
        """What the log shows has been read."""
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
        """It leaves the box, with those before it, together with the batch that holds what they said."""
        self._before, self.taken = self.taken, letter.number
        self._tail.take_letters(self.taken)

    def take_in_hand(self) -> None:
        """The messages that were read are part of what is appended next."""
        self.in_hand = False
        self._tail.take_letters(self.taken)

    def put_back(self) -> None:
        """What was taken last could not be used: it stays in the box."""
        self.taken = self._before
        self.in_hand = False
        self._forget_what_was_left()
        self._tail.take_letters(0)

    def read_again(self) -> None:
        """What was written of those taken is lost: all that are still in the box count as new."""
        self.taken = self._before = 0
        self.in_hand = False
        self._forget_what_was_left()
        self._tail.take_letters(0)

    def _forget_what_was_left(self) -> None:
        self.compaction_left = False
        self.decisions_left = []
        self.ends_left.clear()

    async def end_was_asked_of(self, turn: str) -> bool:
        """Whether somebody has told a turn to end whose process ended before it read that."""
        asked = {letter.op.turn for letter in await self.waiting() if isinstance(letter.op, Interrupt)} | self.ends_left
        return not asked.isdisjoint((turn, ""))

    def forget_ends(self) -> None:
        """No turn is cut off any more that they could be meant for."""
        self.ends_left.clear()

    async def unread_messages(self) -> list[UserMessage]:
        """Messages for a turn that had ended before it read them. A summary that was asked of it is made by the next one,
        answers to its questions count if it is taken up again, and it is not if it was to be interrupted; other ops for it mean
        nothing any more. Until the messages are appended all letters stay in the box: what is written before, such as the end of
        a turn that was cut off, does not hold what they say.
        """
        letters = await self.waiting()
        if not letters:
            if self.in_hand:
                self.take_in_hand()
            self.sent_by = LOCAL_NAME
            return []
        if self._log.is_remote:  # whoever left them on another host does not take the conversation over
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
            if op not in wanted:  # whoever waits for its turn learns from the log that there will be none
                self._tail.append(TurnDropped(op.message.message_id), turn=self._tail.state.turn or "0")
        if self.in_hand and not wanted:
            self.take_in_hand()
        self.sent_by = wanted[-1].by if wanted else LOCAL_NAME
        return [op.message for op in wanted]


class HeldMessage:
    """A message, and who waits to hear what became of it."""

    def __init__(self, op: Send) -> None:
        self.op = op
        self.told: list[Told] = []

    def tell(self, error: AgentError) -> None:
        for tell in self.told:
            tell(error)


class HeldMessages:
    """Messages that came after the running turn was told to end, in the order in which they came. Once it is over the first of them
    begins a turn, and the others join that.
    """

    def __init__(self) -> None:
        self._messages: list[HeldMessage] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, op: Send) -> None:
        self._messages.append(HeldMessage(op))

    def when_durable(self, callback: Told) -> None:
        """Call back once the last of them is durable, or with the reason why it is not."""
        self._messages[-1].told.append(callback)

    def take_all(self) -> list[HeldMessage]:
        taken, self._messages = self._messages, []
        return taken

    def join(self, tail: Tail, turn: str) -> None:
        """A second interrupt is meant for what was sent after the first: it counts as accepted and unread, like other input."""
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
        """Whoever sent it does not want it any more. False when it is not here."""
        for held in self._messages:
            if held.op.message.message_id == message_id:
                self._messages.remove(held)
                held.tell(reason)
                return True
        return False

    def fail(self, reason: AgentError) -> None:
        for held in self.take_all():
            held.tell(reason)
