"""Ends the running turn, even if a crash left it waiting or another process runs it."""

from typing import TYPE_CHECKING

from understudy.engine.conversation.phases import RUNNING
from understudy.engine.ops import Way
from understudy.errors import ConversationBusy
from understudy.protocol.ops import Accepted, Interrupt

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Interrupting(Way[Interrupt]):
    async def here(self, shell: "Shell", op: Interrupt) -> Accepted:
        """The result's `turn` is the turn that ends; "" if another process has it and its id is unknown here. None if no turn runs,
        or if the op names a turn other than the running one.
        """
        ended = await end_turn(shell, op, op.turn or None)
        return Accepted(turn=ended, effective=ended is not None)

    def to_turn(self, shell: "Shell", op: Interrupt, turn: str) -> bool:
        if op.turn in ("", turn):
            shell.interrupt_turn()
        return True

    async def when_idle(self, shell: "Shell", op: Interrupt) -> None:
        """A turn that was cut off, and could not be resumed, is still open in the log."""
        if shell.state.turn is not None and op.turn in ("", shell.state.turn):
            await shell.settle_cut_turn()


WAY = Interrupting()


async def end_turn(shell: "Shell", op: Interrupt, turn: str | None) -> str | None:
    if (running := shell.turn_id) is not None:
        if turn not in (None, running):
            return None
        if shell.phase is RUNNING:
            shell.interrupt_turn()
        else:  # a second interrupt applies to what was sent after the first
            shell.join_held(running)
        return running
    if shell.failure is None:  # else the log is read anew, which may lack the end that is known here
        if turn not in (None, shell.state.turn):
            return None
        if shell.state.turn is None and not shell.unread and not await shell.may_run_elsewhere():
            return None
    try:
        await shell.take_claim()
    except ConversationBusy:
        shell.post(Interrupt(shell.state.turn or "", op.by))
        return shell.state.turn or ""
    ended = shell.state.turn
    if turn not in (None, ended):  # another process had already ended the turn that was meant
        return None
    await shell.settle_cut_turn()
    return ended
