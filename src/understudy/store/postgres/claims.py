"""Claims of this process: rows of the database, which hold for as long as the lease does."""

from collections.abc import Callable

from understudy.protocol.ids import ConversationId
from understudy.store.log import NOWHERE, CanBeLost


class PostgresClaim(CanBeLost):
    def __init__(self, conversation_id: ConversationId, release: Callable[["PostgresClaim"], None]) -> None:
        self.conversation_id = conversation_id
        self.position = NOWHERE
        self.is_asked_for = False  # that on a conversation which nobody can know of is made with its first record
        self.is_there = False  # the database has it
        self._release = release

    def release(self) -> None:
        self._release(self)
