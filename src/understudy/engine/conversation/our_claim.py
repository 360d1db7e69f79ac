"""The claim: who may append to a conversation, and what others wrote while it was theirs.

The claim is taken for a turn and given back after it. Its new owner must know everything written meanwhile: the claim comes with
the log's position, and only new records are read.
"""

import time
from collections.abc import Callable
from enum import Enum

from understudy.engine.conversation.letters import Letters
from understudy.engine.conversation.phases import BREAKING, FAILED, GONE, Given, Standing
from understudy.engine.log.fold import State
from understudy.engine.log.tail import Tail
from understudy.errors import ConversationBusy, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.log import NOWHERE, Claim, EventLog, Holder, Position

ASK_SECONDS = 2.0


class Inbox(Enum):
    """What `OurClaim.take` found for the conversation."""

    EMPTY = "empty"
    HAS_LETTERS = "has letters"  # or may have some, so the inbox must be read


class OurClaim:
    """This process's right to append to one conversation: taken for a turn, and given back after it."""

    def __init__(self, conversation_id: ConversationId, log: EventLog, tail: Tail, letters: Letters, standing: Standing) -> None:
        self._standing = standing
        self._id = conversation_id
        self._log = log
        self._tail = tail
        self._letters = letters
        self.runs_something: Callable[[], bool] | None = None  # whether a turn or a command of this conversation runs here
        self.is_elsewhere = False  # it was on another host when the claim was last requested
        self._asks_again_at = 0.0
        self._claim: Claim | None = None
        self._as_of: int | None = None  # the log's mark of the last claim under which we knew everything and had read all letters

    @property
    def is_held(self) -> bool:
        return self._claim is not None

    async def begin(self) -> None:
        """Claim a new conversation, which no other process knows."""
        self._as_of = (await self._take(NOWHERE)).position.as_of

    async def take(self) -> Inbox:
        """Take the claim and bring the state up to date. Raises `ConversationBusy`."""
        tail = self._tail
        if self._claim is not None and not tail.failure:
            return Inbox.HAS_LETTERS
        if tail.failure:
            if self._standing.phase is BREAKING:
                raise tail.failure  # what runs here is still being stopped
            await tail.all_refused()
        self.release()  # after a failure it is unknown what was written; a new claim tells
        knows = self._as_of is not None and not tail.failure
        known = Position(tail.stored_epoch, tail.state.last_seq, as_of=self._as_of or 0) if knows else None
        claim = await self._take(known)
        position = claim.position
        try:
            if known is None or tail.failure or not _is_at(position, known):
                await self._refresh(position)
            else:
                tail.resume()  # no other process has written since
        except BaseException:
            self._as_of = None
            self.release()
            raise
        if self._claim is None:  # lost during that read
            if self._standing.phase is FAILED:
                self._standing.note(Given.READ_ANEW)
            raise ConversationBusy(f"conversation {self._id} has been taken by another process")
        if self._standing.phase is GONE:  # deleted while this waited for the log
            self.release()
            raise UnknownConversation(f"no conversation {self._id}")
        self._standing.note(Given.CLAIMED)
        if position.letters or self._letters.unread:
            self._as_of = None  # until they are read
            return Inbox.HAS_LETTERS
        self._as_of = position.as_of
        return Inbox.EMPTY

    async def _take(self, known: Position | None = None) -> Claim:
        claim = await self._log.claim(self._id, known)
        if isinstance(claim, Holder):
            from understudy.store.elsewhere import why_not  # rarely needed: another process has the claim

            self.is_elsewhere = False
            if (reason := why_not(self._id, claim)) is not None:
                self.is_elsewhere = True
                raise reason
            raise ConversationBusy(f"conversation {self._id} has a turn running in another process")
        self._claim = claim
        claim.on_lost = self._lose
        if claim.is_lost:
            self._lose()
            raise ConversationBusy(f"conversation {self._id} has been taken by another process")
        return claim

    def may_ask_again(self) -> bool:
        """Limits how often the process that serves the conversation's host is asked to look."""
        now = time.monotonic()
        if now < self._asks_again_at:
            return False
        self._asks_again_at = now + ASK_SECONDS
        return True

    def release(self) -> None:
        if self._claim is not None:
            claim, self._claim = self._claim, None
            claim.on_lost = None
            claim.release()
            self._standing.note(Given.RELEASED)

    def give_back(self) -> bool:
        """Give the claim back with a batch: writing it releases the claim. False if the claim is not ours."""
        if self._claim is None:
            return False
        self._claim.on_lost = None
        self._claim = None
        self._standing.note(Given.RELEASED)
        return True

    def _lose(self) -> None:
        self._claim = self._as_of = None
        self._standing.note(Given.LOST)

    def mistrust(self) -> None:
        """Letters remain in the inbox: the next claimant here must read it."""
        self._as_of = None

    async def catch_up(self) -> None:
        """Read what other processes have appended, and show it."""
        tail = self._tail
        if tail.failure:
            await self.read_anew()
            return
        known = tail.state.last_seq
        missed = await self._log.read(self._id, known)
        if not missed:
            return
        if not tail.state.extend(missed):
            whole = await self._log.read(self._id)
            missed = [entry for entry in whole if entry.seq > known]  # more may have come since the first read
            tail.state = State.read(whole)
        self._letters.seen(missed)
        tail.broadcast.publish_foreign(missed)
        tail.note_committed(missed[-1].seq)  # otherwise those who wait for everything known to be on disk would wait for ever

    async def _refresh(self, position: Position) -> None:
        tail = self._tail
        if not position.epoch:
            raise UnknownConversation(f"no conversation {self._id}")
        if tail.failure:
            await self._reload(position)
        else:
            if position.last_seq != tail.state.last_seq:
                await self.catch_up()
            tail.load(tail.state, position.epoch)

    async def read_anew(self) -> None:
        """Reload after a failure: the state holds records that were never written, and would miss what others write. Wait until
        whatever was begun here has stopped: it would otherwise continue as if nothing had failed.
        """
        position = (await self._log.positions([self._id])).get(self._id)
        runs_something = self.runs_something is not None and self.runs_something()
        if position is not None and self._tail.failure and not (self.is_held or runs_something):
            self._as_of = None
            await self._reload(position)
            self._standing.note(Given.READ_ANEW)

    async def _reload(self, position: Position) -> None:
        tail = self._tail
        self._letters.read_again()
        whole = await self._log.read(self._id)
        published = tail.broadcast.published
        tail.load(State.read(whole), position.epoch)
        tail.broadcast.publish_foreign([entry for entry in whole if entry.seq > published])


def _is_at(position: Position, known: Position) -> bool:
    return position.epoch != 0 and position.epoch == known.epoch and position.last_seq == known.last_seq
