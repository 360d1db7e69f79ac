"""The op that takes back the changes of a turn. It needs the claim, and runs where no turn does."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.engine.recovery import OUTCOME_UNKNOWN, can_go_on
from understudy.engine.tail import Tail
from understudy.errors import AgentError, BadRequest, ConversationBusy, UnknownConversation, report_bug
from understudy.protocol.ops import Accepted, Undo
from understudy.protocol.records import Entry, PatchEnded, PatchStarted, UndoEnded, UndoStarted

if TYPE_CHECKING:
    from understudy.engine.conversation import Conversation
    from understudy.tools.acts.undoing import PatchPair
    from understudy.tools.patch.taking_back import Taken

logger = logging.getLogger(__name__)

TURN_RUNS = "a turn is running: interrupt it, or wait for its end, and undo after that"
TURN_WAITS = "a turn waits for an answer: answer it or interrupt the turn, and undo after that"


async def undo(conversation: "Conversation", op: Undo) -> Accepted:
    """`posted`: another process has the conversation, for commands that outlive their turns, and was asked to do it.

    Raises `BadRequest` with the reason where it is not done, with nothing recorded.
    """
    if conversation.refuses:
        raise UnknownConversation(f"no conversation {conversation.id}")
    if conversation.running:
        raise BadRequest(TURN_RUNS)
    try:
        await conversation.claim.take()
    except ConversationBusy:
        await conversation.claim.catch_up()
        if conversation.state.turn is not None:
            raise BadRequest(TURN_RUNS) from None
        conversation.letters.post(op)
        conversation.on_watch_needed(conversation)
        return Accepted(posted=True)
    await _undo_here(conversation, op)
    return Accepted()


async def undo_for_another(conversation: "Conversation", op: Undo) -> None:
    """It was left for us by another process, which learns from the log what came of it."""
    if op.undo_id in conversation.state.undo.numbers:
        return
    try:
        if conversation.running:
            raise BadRequest(TURN_RUNS)
        await _undo_here(conversation, op)
    except AgentError as error:
        refuse(conversation, op, str(error))
    except Exception as error:
        refuse(conversation, op, report_bug(logger, error, "in undoing a turn of %s", conversation.id))


def refuse(conversation: "Conversation", op: Undo, problem: str) -> None:
    turn = conversation.state.turn or str(conversation.state.submissions)
    conversation.tail.append(UndoEnded(op.undo_id, op.turn, problem=problem), turn=turn)


async def _undo_here(conversation: "Conversation", op: Undo) -> None:
    tail = conversation.tail
    if op.undo_id in conversation.state.undo.numbers:  # it was done by the process that had the conversation before us
        return
    if conversation.state.turn is not None and can_go_on(conversation.state):
        raise BadRequest(TURN_WAITS)
    await conversation.beginning.settle_cut_turn(may_resume=False)
    turn = conversation.state.undo.choose(op.turn)
    settings = conversation.setup().settings()
    await tail.committed()
    first, last = conversation.state.undo.patched[turn]
    entries = await conversation.read(first - 1, last - first + 1)
    number = str(conversation.state.submissions + 1)

    async def begin(paths: tuple[str, ...]) -> None:
        tail.append(UndoStarted(op.undo_id, turn, paths, op.by), turn=number)
        await tail.committed()

    def end(taken: "Taken") -> None:
        tail.append(UndoEnded(op.undo_id, turn, tuple(taken.taken_back), taken.left), turn=number)

    from understudy.tools.acts.undoing import undo_patches  # seldom asked for

    try:
        pairs = _pairs(entries, turn)
        await undo_patches(settings, pairs, conversation.sandbox, approves=op.approves, begin=begin, end=end)
    finally:
        settle_cut_undo(conversation.tail)  # only a bug leaves one


def settle_cut_undo(tail: Tail) -> None:
    """An undo that began and did not end, because its process did."""
    cut = tail.state.undo.begun
    if cut is not None:
        ended = UndoEnded(cut.undo_id, cut.undone, problem=OUTCOME_UNKNOWN, unknown=True)
        tail.append(ended, turn=tail.state.undo.numbers[cut.undo_id])


def _pairs(entries: Sequence[Entry], turn: str) -> "list[PatchPair]":
    """The patches of the turn that changed something, or may have."""
    from understudy.tools.acts.undoing import PatchPair

    begun: dict[str, PatchStarted] = {}
    pairs: list[PatchPair] = []
    for entry in entries:
        if entry.turn != turn:
            continue
        match entry.record:
            case PatchStarted() as started:
                begun[started.call_id] = started
            case PatchEnded(call_id=call_id) as ended if call_id in begun:
                unknown = OUTCOME_UNKNOWN if ended.stderr == OUTCOME_UNKNOWN else None
                if ended.success or unknown:
                    pairs.append(PatchPair(begun.pop(call_id), ended, unknown))
            case _:
                pass
    return pairs
