"""Which conversations are in memory: all that are at work or were used a moment ago, and of the others those that were used last.

They are bounded by what they take, and not by their number: a thousand short ones take less than one long one, and reading one
from the store again costs as much as three replies.
"""

import asyncio
from itertools import islice

from understudy.engine.conversation.conversation import Conversation
from understudy.protocol.ids import ConversationId

MOST_BYTES = 128 * 2**20  # that all of them take together, before those are put away that nobody uses
BYTES_OF_ONE = 32 * 1024  # of one without any history
BYTES_OF_A_BYTE = 2  # of one, for each byte of the JSON that its history has
BUSY_SECONDS = 10.0  # since it was used last: whoever answers without pause is not put away between two messages
LOOKED_AT = 8  # conversations, whether they may be put away, for each that is used: thousands may be busy
_UNUSED = (0, 0.0)


class Remembered:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.all: dict[ConversationId, Conversation] = {}  # in order of use
        self._uses: dict[ConversationId, tuple[int, float]] = {}  # the bytes of each when it was used last, and when that was
        self._loop = loop
        self._bytes = 0

    def note_used(self, conversation: Conversation) -> None:
        """Behind all others."""
        known = self.all
        known.pop(conversation.id, None)
        known[conversation.id] = conversation
        size = BYTES_OF_ONE + BYTES_OF_A_BYTE * conversation.tail.size
        before, _ = self._uses.get(conversation.id, _UNUSED)
        self._bytes += size - before
        now = self._loop.time()
        self._uses[conversation.id] = size, now
        if self._bytes > MOST_BYTES:
            self._put_some_away(now)

    def forget(self, conversation: Conversation) -> None:
        """It is not the one that is found from now on; who has it goes on with it."""
        if self.all.get(conversation.id) is conversation:
            del self.all[conversation.id]
            size, _ = self._uses.pop(conversation.id)
            self._bytes -= size

    def _put_some_away(self, now: float) -> None:
        for each in tuple(islice(self.all.values(), LOOKED_AT)):
            if self._bytes <= MOST_BYTES or now - self._uses[each.id][1] < BUSY_SECONDS:
                return  # all that follow were used later
            if each.is_quiet:
                self.forget(each)
                each.forget()
            else:  # behind all others, so that it is not looked at each time
                size, _ = self._uses[each.id]
                self._uses[each.id] = size, now
                self.all[each.id] = self.all.pop(each.id)
