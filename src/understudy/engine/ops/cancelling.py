"""Taking a message back: before its turn has begun it is dropped, and after that the turn ends."""

from typing import TYPE_CHECKING

from understudy.engine.letters import CANCELLED_BEFORE
from understudy.engine.ops import Way
from understudy.engine.ops.interrupting import end_turn
from understudy.engine.ops.sending import drop, drop_here
from understudy.errors import BadRequest
from understudy.protocol.ops import Accepted, Cancel, Interrupt

if TYPE_CHECKING:
    from understudy.engine.shell import Shell


class Cancelling(Way[Cancel]):
    async def here(self, shell: "Shell", op: Cancel) -> Accepted:
        return Accepted(op.message_id, op.turn, effective=await _cancel(shell, op))

    def to_turn(self, shell: "Shell", op: Cancel, turn: str) -> bool:
        drop_here(shell, op.message_id)
        return True


WAY = Cancelling()


async def _cancel(shell: "Shell", op: Cancel) -> bool:
    if shell.take_back(op.message_id, BadRequest(CANCELLED_BEFORE)):
        return True
    if op.message_id in shell.state.queued or op.message_id in shell.unread:
        return await drop(shell, op)
    began = op.turn or next((turn for turn, first in shell.state.turn_messages.items() if first == op.message_id), "")
    return bool(began) and await end_turn(shell, Interrupt(began, op.by), began) is not None
