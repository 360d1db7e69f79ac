"""Takes back the changes of a turn. It needs the claim, and runs while no turn does."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.engine.caller_limits import check_past, check_setup
from understudy.engine.log.recovery import OUTCOME_UNKNOWN, can_go_on, cut_undo
from understudy.engine.ops import Way
from understudy.errors import AgentError, BadRequest, ConversationBusy, report_bug
from understudy.protocol.ops import Accepted, Undo
from understudy.protocol.records import Entry, PatchEnded, PatchStarted, Record, UndoEnded, UndoStarted
from understudy.tools.acts.undoing import PatchPair, undo_patches

if TYPE_CHECKING:
    from understudy.engine.caller_limits import Judged
    from understudy.engine.conversation.shell import Shell
    from understudy.protocol.callers import Limits
    from understudy.tools.acts.undoing import PatchPair
    from understudy.tools.patch.taking_back import Taken

logger = logging.getLogger(__name__)

TURN_RUNS = "a turn is running: interrupt it, or wait for its end, and undo after that"
TURN_WAITS = "a turn waits for an answer: answer it or interrupt the turn, and undo after that"


class Undoing(Way[Undo]):
    async def judge(self, limits: "Limits", conversation: "Judged", op: Undo) -> Undo:
        """Check every place that the conversation has worked in, because files are restored there."""
        check_setup(limits, conversation.setup())
        check_past(limits, [entry.record for entry in await conversation.read(0)])
        return op

    async def here(self, shell: "Shell", op: Undo) -> Accepted:
        """`posted`: another process has the conversation, for commands that outlive their turns, and was asked to do it.

        Raises `BadRequest` with the reason if it is not done; nothing is recorded then.
        """
        shell.check_exists()
        if shell.turn_runs:
            raise BadRequest(TURN_RUNS)
        try:
            await shell.take_claim()
        except ConversationBusy:
            await shell.catch_up()
            if shell.state.turn is not None:
                raise BadRequest(TURN_RUNS) from None
            shell.post(op)
            return Accepted(posted=True)
        await _undo_here(shell, op)
        return Accepted()

    def to_turn(self, shell: "Shell", op: Undo, turn: str) -> bool:
        _refuse(shell, op, TURN_RUNS)
        return True

    async def between_turns(self, shell: "Shell", op: Undo) -> None:
        """Whoever left the op learns its outcome from the log."""
        if op.undo_id in shell.state.undo.numbers:
            return
        try:
            if shell.turn_runs:
                raise BadRequest(TURN_RUNS)
            await _undo_here(shell, op)
        except AgentError as error:
            _refuse(shell, op, str(error))
        except Exception as error:
            _refuse(shell, op, report_bug(logger, error, "in undoing a turn of %s", shell.id))

    def is_done_by(self, op: Undo, record: Record) -> bool:
        return isinstance(record, UndoEnded) and record.undo_id == op.undo_id


WAY = Undoing()


def _refuse(shell: "Shell", op: Undo, problem: str) -> None:
    turn = shell.state.turn or str(shell.state.submissions)
    shell.append(UndoEnded(op.undo_id, op.turn, problem=problem), turn=turn)


async def _undo_here(shell: "Shell", op: Undo) -> None:
    if op.undo_id in shell.state.undo.numbers:  # the previous process with the claim has already done it
        return
    if shell.state.turn is not None and can_go_on(shell.state):
        raise BadRequest(TURN_WAITS)
    await shell.settle_cut_turn()
    turn = shell.state.undo.choose(op.turn)
    settings = shell.setup().settings()
    await shell.all_written()
    first, last = shell.state.undo.patched[turn]
    entries = await shell.read(first - 1, last - first + 1)
    number = str(shell.state.submissions + 1)

    async def begin(paths: tuple[str, ...]) -> None:
        shell.append(UndoStarted(op.undo_id, turn, paths, op.by), turn=number)
        await shell.all_written()

    def end(taken: "Taken") -> None:
        shell.append(UndoEnded(op.undo_id, turn, tuple(taken.taken_back), taken.left), turn=number)

    try:
        pairs = _pairs(entries, turn)
        await undo_patches(settings, pairs, shell.sandbox, approves=op.approves, begin=begin, end=end)
    finally:
        if (cut := cut_undo(shell.state)) is not None:  # only a bug leaves one
            shell.append(cut[1], turn=cut[0])


def _pairs(entries: Sequence[Entry], turn: str) -> "list[PatchPair]":
    """The turn's patches that changed something or may have."""
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
