"""Resumes a turn that waited for an answer when its process ended."""

from typing import TYPE_CHECKING

from understudy.engine.ops import Way
from understudy.errors import HostAway, StandsElsewhere
from understudy.protocol.ops import Accepted, Resume

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Resuming(Way[Resume]):
    async def here(self, shell: "Shell", op: Resume) -> Accepted:
        try:
            return Accepted(turn=await shell.resume())
        except HostAway:  # its conversation can still be read
            return Accepted(turn=shell.state.turn)
        except StandsElsewhere:
            if shell.state.turn is None or await shell.is_claimed():
                return Accepted(turn=shell.state.turn)
            shell.post(op)
            return Accepted(turn=shell.state.turn, posted=True)

    def to_turn(self, shell: "Shell", op: Resume, turn: str) -> bool:
        return True  # the turn runs already


WAY = Resuming()
