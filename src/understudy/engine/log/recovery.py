"""A turn that a crash cut off: whether it can continue, and otherwise the records that close it truthfully."""

from collections.abc import Container

from understudy.engine.log.facts import OUTCOME_UNKNOWN
from understudy.engine.log.fold import State
from understudy.engine.log.unfinished_text import TEXT, cut_off, finished_by
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import FunctionCallOutput
from understudy.protocol.records import (
    CommandEnded,
    CommandStarted,
    PatchEnded,
    PatchStarted,
    Record,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    UndoEnded,
)
from understudy.store.log import EventLog

INTERRUPTED = "Turn interrupted"
NOT_RUN = "aborted"


def cut_undo(state: State) -> tuple[str, UndoEnded] | None:
    """The end of an undo whose process died before it ended, and the undo's turn."""
    cut = state.undo.begun
    if cut is None:
        return None
    return state.undo.numbers[cut.undo_id], UndoEnded(cut.undo_id, cut.undone, problem=OUTCOME_UNKNOWN, unknown=True)


def can_go_on(state: State) -> bool:
    """Whether the open turn waits for an answer: only then does nothing of it run."""
    return bool(state.questions) and not state.running


def close_open_calls(state: State) -> list[Record]:
    """An outcome for everything that was begun, and an answer for the model to every call."""
    records: list[Record] = []
    for call_id, begun in state.running.items():
        records.append(_unknown_outcome(call_id, begun))
    records += [answer_unanswered(state, call_id) for call_id in state.calls]
    return records


def answer_unanswered(state: State, call_id: str) -> ToolAnswered:
    """What the model is told of a call whose turn ends before the call was answered."""
    known = _known_outcome(state.outcomes.get(call_id))
    text = f"interrupted: {OUTCOME_UNKNOWN}" if call_id in state.running else known
    return ToolAnswered(FunctionCallOutput(call_id, text), success=False)


def _unknown_outcome(call_id: str, begun: CommandStarted | PatchStarted | ToolCallBegan) -> Record:
    match begun:
        case CommandStarted():
            return _lost(begun) if begun.session is not None else CommandEnded(call_id, "", OUTCOME_UNKNOWN, -1, 0.0)
        case PatchStarted():
            return PatchEnded(call_id, "", OUTCOME_UNKNOWN, success=False)
        case ToolCallBegan(server=server, tool=tool):
            return ToolCallEnded(call_id, server, tool, 0.0, begun.arguments, begun.read_only, error=OUTCOME_UNKNOWN)


def _lost(begun: CommandStarted) -> CommandEnded:
    return CommandEnded(begun.call_id, "", OUTCOME_UNKNOWN, -1, 0.0, started=begun, ended_by=OUTCOME_UNKNOWN)


def lost_sessions(state: State, alive: Container[int]) -> list[tuple[str, CommandEnded]]:
    """Ends of sessions that died with their process, each with its turn. Sessions whose call is still open are left out."""
    return [
        (turn, _lost(begun))
        for number, (turn, begun) in state.sessions.running.items()
        if number not in alive and begun.call_id not in state.running
    ]


def _known_outcome(outcome: CommandEnded | PatchEnded | ToolCallEnded | None) -> str:
    match outcome:
        case None:
            return NOT_RUN
        case CommandEnded():
            printed = f"{outcome.stdout}{outcome.stderr}"
            return f"interrupted: the command had ended with exit code {outcome.exit_code}\n{printed}".rstrip()
        case PatchEnded(success=success):
            return (
                "interrupted: the patch had been applied"
                if success
                else f"interrupted: the patch failed\n{outcome.stderr}".rstrip()
            )
        case ToolCallEnded(failed=failed):
            return f"interrupted: the tool had {'failed' if failed else 'ended'}\n{outcome.describe()}".rstrip()


async def unfinished_text(log: EventLog, conversation_id: ConversationId) -> str | None:
    """The saved part of an answer that will never be complete, if it was kept beside the log."""
    said = await log.saved_text(conversation_id)
    if said is None or not said.text:
        return None
    finished = any(TEXT in finished_by(entry.record) for entry in await log.read(conversation_id, said.after))
    return None if finished else cut_off(said.text)
