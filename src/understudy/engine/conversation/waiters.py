"""Those who wait for the end of a turn and follow it, as a conversation sees them."""

from typing import Protocol

from understudy.engine.log.broadcast import Follower
from understudy.protocol.ops import Accepted


class Waiter(Follower, Protocol):
    leads: bool  # the turn was begun by the viewer's message, or was taken over here for it

    def follow_message(self, accepted: Accepted) -> None: ...

    def taken_over(self) -> None: ...

    def put_open_questions(self) -> None: ...
