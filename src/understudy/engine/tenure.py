"""Who may append to a conversation, and what others did while it was not us.

The claim is taken for a turn and given back after it. Whoever takes it has to know all that was written meanwhile; where the store
can say that no other process has written at all since we held it last, nothing is read.
"""

from understudy.engine.fold import State
from understudy.engine.letters import Letters
from understudy.engine.tail import Tail
from understudy.errors import ConversationBusy, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.log import Claim, EventLog


class Tenure:
    def __init__(self, conversation_id: ConversationId, log: EventLog, feed: Tail, letters: Letters) -> None:
        self._id = conversation_id
        self._log = log
        self._feed = feed
        self._letters = letters
        self._claim: Claim | None = None
        self._heard: bytes | None = None  # what others had written when we knew all of it and had read all letters, under the claim

    @property
    def held(self) -> bool:
        return self._claim is not None

    def begin(self) -> None:
        """Of a new conversation, which nobody else knows."""
        self._claim = self._log.claim(self._id)
        self._heard = self._log.changes()

    def take(self) -> bool:
        """Become the one who may append, with the newest state. False when no letters wait. Raises `ConversationBusy`."""
        if self._claim is not None and not self._feed.failure:
            return self._heard != self._log.changes() or bool(self._letters.unread)
        heard = self._heard
        claim = self._claim or self._log.claim(self._id)
        if claim is None:
            raise ConversationBusy(f"conversation {self._id} has a turn running in another process")
        self._claim = claim
        self._heard = self._log.changes()
        try:
            if self._heard == heard and not self._feed.failure:
                self._feed.resume()
                return bool(self._letters.unread)
            letters = self._refresh()
        except BaseException:
            self._claim = self._heard = None
            claim.release()
            raise
        if letters:
            self._heard = None  # until they are read
        return letters

    def release(self) -> None:
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def may_have_letters(self) -> bool:
        """Whether it is worth looking into the box; whoever asks does so if it is."""
        heard, self._heard = self._heard, self._log.changes()
        return self._heard != heard or bool(self._letters.unread)

    def mistrust(self) -> None:
        """Letters were left in the box: the next one who takes the claim has to look."""
        self._heard = None

    def catch_up(self) -> None:
        """Take in, and show, what other processes have appended."""
        feed = self._feed
        missed = self._log.read(self._id, feed.state.last_seq)
        if not missed:
            return
        self._letters.seen(missed)
        if not feed.state.extend(missed):
            feed.state = State.read(self._log.read(self._id))
        feed.broadcast.publish_foreign(missed)

    def _refresh(self) -> bool:
        feed = self._feed
        position = self._log.position(self._id)
        if position is None:
            raise UnknownConversation(f"no conversation {self._id}")
        if feed.failure:  # the state holds what was never written
            self._letters.read_again()
            missed = self._log.read(self._id, feed.broadcast.published)
            feed.load(State.read(self._log.read(self._id)), position.epoch)
            feed.broadcast.publish_foreign(missed)
            return position.letters
        if position.last_seq != feed.state.last_seq:
            self.catch_up()
        feed.load(feed.state, position.epoch)
        return position.letters
