"""Asks for a summary: the running turn makes it, or a turn of its own."""

from typing import TYPE_CHECKING

from understudy.engine.caller_limits import check_setup
from understudy.engine.conversation.beginning import NOTHING_TO_COMPACT
from understudy.engine.conversation.our_claim import Inbox
from understudy.engine.ops import Way
from understudy.errors import BadRequest, ConversationBusy
from understudy.protocol.ops import Accepted, Compact

if TYPE_CHECKING:
    from understudy.engine.caller_limits import Judged
    from understudy.engine.conversation.shell import Shell
    from understudy.protocol.callers import Limits

COMPACT_WHILE_ENDING = "the running turn was told to end: ask for a summary again when it is over"


class Compacting(Way[Compact]):
    async def judge(self, limits: "Limits", conversation: "Judged", op: Compact) -> Compact:
        check_setup(limits, conversation.setup())
        return op

    async def here(self, shell: "Shell", op: Compact) -> Accepted:
        """`joined`: the running turn makes it, here or in another process. Otherwise a turn was begun for it."""
        shell.check_exists()
        if shell.turn_runs:
            return _by_running_turn(shell)
        try:
            inbox = await shell.take_claim()
        except ConversationBusy:
            if shell.is_on_another_host and shell.state.turn is None and not shell.state.history.can_be_summed_up:
                raise BadRequest(NOTHING_TO_COMPACT) from None
            shell.post(op)
            begins_there = shell.is_on_another_host and shell.state.turn is None
            return Accepted(turn=shell.state.turn or "", joined=True, posted=begins_there)
        if inbox is Inbox.HAS_LETTERS and await shell.begin_with_letters():
            return _by_running_turn(shell)
        turn, resumed = await shell.begin_compaction(op.by)
        return _by_running_turn(shell) if resumed else Accepted(turn=turn)

    def to_turn(self, shell: "Shell", op: Compact, turn: str) -> bool:
        shell.sum_up_soon()
        return True

    async def when_idle(self, shell: "Shell", op: Compact) -> None:
        await shell.begin_compaction(op.by)


WAY = Compacting()


def _by_running_turn(shell: "Shell") -> Accepted:
    turn = shell.turn_id
    if turn is None or shell.is_ending:
        raise BadRequest(COMPACT_WHILE_ENDING)
    shell.sum_up_soon()
    return Accepted(turn=turn, joined=True)
