"""Decides which conversations stay in memory: all that are busy or were just used, and of the others the most recently used.

The limit is on bytes, not on their number: a thousand short conversations take less than one long one, and loading one from the
store again costs as much as three replies.
"""

import asyncio
from itertools import islice

from understudy.engine.conversation.conversation import Conversation
from understudy.protocol.ids import ConversationId

MOST_BYTES = 128 * 2**20  # for all conversations together; beyond this, unused ones are dropped from memory
BYTES_OF_ONE = 32 * 1024  # assumed for a conversation without any history
BYTES_OF_A_BYTE = 2  # memory for each byte of JSON in its history
BUSY_SECONDS = 10.0  # after its last use: a busy caller's conversation stays in memory between two messages
LOOKED_AT = 8  # conversations checked for removal at each use: thousands may be busy
_UNUSED = (0, 0.0)


class Remembered:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.all: dict[ConversationId, Conversation] = {}  # in order of use
        self._uses: dict[ConversationId, tuple[int, float]] = {}  # the bytes of each at its last use, and the time of that use
        self._loop = loop
        self._bytes = 0

    def note_used(self, conversation: Conversation) -> None:
        """Move the conversation to the end of the order."""
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
        """Stop finding this conversation; those who hold it keep using it."""
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
            else:  # move it to the end, so that it is not checked each time
                size, _ = self._uses[each.id]
                self._uses[each.id] = size, now
                self.all[each.id] = self.all.pop(each.id)
