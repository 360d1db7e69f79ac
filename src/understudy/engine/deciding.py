"""The op that answers a question: of the turn that runs, of one that a crash left waiting, or of another process."""

from typing import TYPE_CHECKING

from understudy.errors import ConversationBusy
from understudy.protocol.ops import Accepted, Decide

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation


async def decide(conversation: "Conversation", op: Decide) -> Accepted:
    """Not effective when the question was not open any more."""
    if conversation.running.turn is not None:
        conversation.check_log()
        turn = conversation.running.turn.turn_id
        return _taken(conversation, op, turn)
    meant = op.turn or conversation.state.turn or ""
    if not await conversation.elsewhere.has_claim():
        state = conversation.state
        if meant != state.turn or op.call_id not in state.questions or op.asked_at not in (0.0, state.asked_at.get(op.call_id)):
            return Accepted(turn=meant, effective=False)
        try:
            resumed = await conversation.resume()
        except ConversationBusy:  # another process has taken it up meanwhile
            pass
        else:  # kept until the turn has asked again
            return Accepted(turn=meant, effective=False) if resumed is None else _taken(conversation, op, resumed)
    conversation.letters.post(op.of_turn(meant))
    return Accepted(turn=meant, posted=True)


def _taken(conversation: "Conversation", op: Decide, turn: str) -> Accepted:
    counts = conversation.decide_here(op, turn)
    return Accepted(turn=turn, effective=counts, posted=conversation.approvals.has_early(op.call_id))
