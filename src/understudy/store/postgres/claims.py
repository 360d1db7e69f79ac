"""The claims of this process: rows of the database that are valid as long as the lease."""

from collections.abc import Callable

from understudy.protocol.ids import ConversationId
from understudy.store.log import NOWHERE, CanBeLost


class PostgresClaim(CanBeLost):
    def __init__(self, conversation_id: ConversationId, release: Callable[["PostgresClaim"], None]) -> None:
        self.conversation_id = conversation_id
        self.position = NOWHERE
        self.is_asked_for = False  # False: nobody else can know of this conversation, and its first record will make the claim
        self.is_there = False  # the database has the claim
        self._release = release

    def release(self) -> None:
        self._release(self)
