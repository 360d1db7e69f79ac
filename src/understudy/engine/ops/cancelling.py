"""Takes a message back: it is dropped if its turn has not begun; otherwise the turn ends."""

from typing import TYPE_CHECKING

from understudy.engine.conversation.letters import CANCELLED_BEFORE
from understudy.engine.ops import Way
from understudy.engine.ops.interrupting import end_turn
from understudy.engine.ops.sending import drop, drop_here
from understudy.errors import BadRequest
from understudy.protocol.ops import Accepted, Cancel, Interrupt

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Cancelling(Way[Cancel]):
    async def here(self, shell: "Shell", op: Cancel) -> Accepted:
        state = shell.state
        if shell.take_back(op.message_id, BadRequest(CANCELLED_BEFORE)):
            effective = True
        elif op.message_id in state.queued or op.message_id in shell.unread:
            effective = await drop(shell, op)
        else:
            began = op.turn or next((turn for turn, first in state.turn_messages.items() if first == op.message_id), "")
            effective = bool(began) and await end_turn(shell, Interrupt(began, op.by), began) is not None
        return Accepted(op.message_id, op.turn, effective=effective)

    def to_turn(self, shell: "Shell", op: Cancel, turn: str) -> bool:
        if not drop_here(shell, op.message_id) and shell.state.turn_messages.get(turn) == op.message_id:
            shell.interrupt_turn()
        return True

    async def when_idle(self, shell: "Shell", op: Cancel) -> None:
        drop_here(shell, op.message_id)


WAY = Cancelling()
