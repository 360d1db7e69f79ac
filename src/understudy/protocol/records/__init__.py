"""What the log of a conversation holds, in order. Everything else (history, events, status) is a fold over these.

Wire events are projected from records in `servers`; nothing here knows a wire.
"""

import msgspec

from understudy.protocol.records.calls import (
    OWN_SERVER,
    CommandEnded,
    CommandStarted,
    Delta,
    HookRan,
    InputWritten,
    OutputDelta,
    PromptBlocked,
    ReasoningDelta,
    ServersChecked,
    TextDelta,
    ToolCallBegan,
    ToolCallEnded,
)
from understudy.protocol.records.files import (
    DiffChanged,
    ImageViewed,
    LeftFile,
    PatchEnded,
    PatchStarted,
    Piece,
    UndoEnded,
    UndoStarted,
    WorkspaceMoved,
    WorkspaceSaved,
    WorkspaceSaveStarted,
)
from understudy.protocol.records.questions import (
    Answers,
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    HookApprovalAsked,
    InputOption,
    InputQuestion,
    PatchApprovalAsked,
    Question,
    ToolApprovalAsked,
    UserInputAsked,
)
from understudy.protocol.records.turns import (
    AnswerRejected,
    Budget,
    Compacted,
    CompactionStarted,
    Failure,
    ItemReceived,
    Noticed,
    Opened,
    Overrides,
    Pin,
    Pins,
    PlanStep,
    PlanUpdated,
    Renamed,
    RequestSent,
    RetryScheduled,
    Shortened,
    Terms,
    TokensCounted,
    ToolAnswered,
    TurnDropped,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UserMessage,
    Workspace,
)

__all__ = [
    "OWN_SERVER",
    "AnswerRejected",
    "Answers",
    "ApprovalDecided",
    "Budget",
    "BudgetAsked",
    "CommandApprovalAsked",
    "CommandEnded",
    "CommandStarted",
    "Compacted",
    "CompactionStarted",
    "Delta",
    "DiffChanged",
    "Entry",
    "Failure",
    "HookApprovalAsked",
    "HookRan",
    "ImageViewed",
    "InputOption",
    "InputQuestion",
    "InputWritten",
    "ItemReceived",
    "LeftFile",
    "Noticed",
    "Opened",
    "OutputDelta",
    "Overrides",
    "PatchApprovalAsked",
    "PatchEnded",
    "PatchStarted",
    "Piece",
    "Pin",
    "Pins",
    "PlanStep",
    "PlanUpdated",
    "PromptBlocked",
    "Question",
    "ReasoningDelta",
    "Record",
    "Renamed",
    "RequestSent",
    "RetryScheduled",
    "ServersChecked",
    "Shortened",
    "Terms",
    "TextDelta",
    "TokensCounted",
    "ToolAnswered",
    "ToolApprovalAsked",
    "ToolCallBegan",
    "ToolCallEnded",
    "TurnDropped",
    "TurnEnded",
    "TurnQueued",
    "TurnStarted",
    "UndoEnded",
    "UndoStarted",
    "UserInputAsked",
    "UserMessage",
    "Workspace",
    "WorkspaceMoved",
    "WorkspaceSaveStarted",
    "WorkspaceSaved",
]

Record = (
    Opened
    | UserMessage
    | TurnStarted
    | RequestSent
    | ItemReceived
    | ToolAnswered
    | CommandStarted
    | CommandEnded
    | InputWritten
    | PatchStarted
    | PatchEnded
    | ToolCallBegan
    | ToolCallEnded
    | ImageViewed
    | CommandApprovalAsked
    | PatchApprovalAsked
    | BudgetAsked
    | ToolApprovalAsked
    | HookApprovalAsked
    | HookRan
    | PromptBlocked
    | UserInputAsked
    | ServersChecked
    | ApprovalDecided
    | AnswerRejected
    | PlanUpdated
    | TokensCounted
    | CompactionStarted
    | Compacted
    | DiffChanged
    | UndoStarted
    | UndoEnded
    | WorkspaceSaveStarted
    | WorkspaceSaved
    | WorkspaceMoved
    | Noticed
    | RetryScheduled
    | Renamed
    | TurnQueued
    | TurnDropped
    | TurnEnded
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record in its place. `turn` is the submission id its events carry; `parent` the record it follows on its path."""

    seq: int
    parent: int
    turn: str
    at: float  # seconds since the epoch
    record: Record
