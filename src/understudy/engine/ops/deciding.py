"""Answers a question of the turn that runs here, of a turn that a crash left waiting, or of another process."""

from typing import TYPE_CHECKING

from understudy.engine.ops import Way
from understudy.errors import ConversationBusy
from understudy.protocol.ops import Accepted, Decide

if TYPE_CHECKING:
    from understudy.engine.conversation.shell import Shell


class Deciding(Way[Decide]):
    async def here(self, shell: "Shell", op: Decide) -> Accepted:
        """Not effective if the question was no longer open."""
        if (turn := shell.turn_id) is not None:
            shell.check_log()
            return _taken(shell, op, turn)
        meant = op.turn or shell.state.turn or ""
        if not await shell.is_claimed():
            state = shell.state
            if meant != state.turn or op.call_id not in state.questions or op.asked_at not in (0.0, state.asked_at.get(op.call_id)):
                return Accepted(turn=meant, effective=False)
            try:
                resumed = await shell.resume()
            except ConversationBusy:  # another process has resumed the turn meanwhile
                pass
            else:  # kept until the turn has asked again
                return Accepted(turn=meant, effective=False) if resumed is None else _taken(shell, op, resumed)
        shell.post(op.of_turn(meant))
        return Accepted(turn=meant, posted=True)

    def to_turn(self, shell: "Shell", op: Decide, turn: str) -> bool:
        shell.decide_here(op, turn)
        return True


WAY = Deciding()


def _taken(shell: "Shell", op: Decide, turn: str) -> Accepted:
    counts = shell.decide_here(op, turn)
    return Accepted(turn=turn, effective=counts, posted=shell.has_early_answer(op.call_id))
