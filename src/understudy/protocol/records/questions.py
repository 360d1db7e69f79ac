"""Questions to a person, and their answers."""

from typing import Any

import msgspec

from understudy.protocol.choices import BudgetLimit, Decision
from understudy.protocol.records.files import FileChange

PLAN_CALL = "plan-"  # begins the ids of questions about a plan: they belong to no call of the model

__all__ = [
    "PLAN_CALL",
    "Answers",
    "ApprovalDecided",
    "BudgetAsked",
    "CommandApprovalAsked",
    "HookApprovalAsked",
    "InputOption",
    "InputQuestion",
    "PatchApprovalAsked",
    "Question",
    "QuestionRecord",
    "ToolApprovalAsked",
    "UserInputAsked",
]


class CommandApprovalAsked(msgspec.Struct, frozen=True, gc=False, tag="command_approval_asked"):
    call_id: str
    command: tuple[str, ...]
    cwd: str
    reason: str | None = None
    key: str | None = None  # what an approval for the session would cover
    retries: bool = False  # the command has run in the sandbox, which refused it something
    note: str | None = None  # why the question is asked, in the words of a user's rule; `reason` may be the model's
    full_access: bool = False  # the mode has no sandbox to leave
    depends_on: str = msgspec.field(default="", name="ground")  # digest of folder, programs and scripts; empty in older records
    typed_at: str | None = None  # the question is about input for this command, which runs outside the sandbox if `full_access`


class PatchApprovalAsked(msgspec.Struct, frozen=True, gc=False, tag="patch_approval_asked"):
    call_id: str
    changes: dict[str, FileChange]
    reason: str | None = None
    outside: tuple[str, ...] = ()  # the paths outside the writable roots
    protected: tuple[str, ...] = ()  # the paths on the protected list
    replaced: tuple[str, ...] = ()  # the paths whose existing file an addition or a move would replace


class BudgetAsked(msgspec.Struct, frozen=True, gc=False, tag="budget_asked"):
    """A limit is reached: may it be raised? A refusal ends the turn."""

    call_id: str  # made up for the question; no tool call has it
    limit: BudgetLimit
    used: float
    allowed: float
    raised_to: float  # the new limit after a yes
    message_id: str | None = None  # the message whose call has the limit; None: the conversation has it


class ToolApprovalAsked(msgspec.Struct, frozen=True, gc=False, tag="tool_approval_asked", omit_defaults=True):
    """May a tool of another server be called?"""

    call_id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None = None  # all of them: what is approved is what is sent
    key: str | None = None  # what an approval for the session would cover
    contained: bool = False  # whether the server runs in the sandbox
    hints: tuple[str, ...] = ()  # what the server says of the tool


class HookApprovalAsked(msgspec.Struct, frozen=True, gc=False, tag="hook_approval_asked"):
    """A hook wants a person to decide, or has failed. A yes answers only this: the usual rules are applied after it."""

    call_id: str  # of the call, or made up for a message
    event: str
    hook: str  # its key
    tool: str  # empty: the question is about a message
    shown: str  # the call or message, in words for the person
    reason: str  # the hook's words, or how it failed
    failed: bool = False


class InputOption(msgspec.Struct, frozen=True, gc=False):
    """One of the answers that a question offers; a person may always say something else."""

    label: str
    description: str = ""


class InputQuestion(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something that the model wants to know."""

    id: str
    header: str  # a word or two
    question: str
    options: tuple[InputOption, ...] = ()  # empty: the person answers in their own words


class UserInputAsked(msgspec.Struct, frozen=True, gc=False, tag="user_input_asked"):
    """The model asks the person something. This permits nothing: the answer is only told to the model."""

    call_id: str
    questions: tuple[InputQuestion, ...]


Question = CommandApprovalAsked | PatchApprovalAsked | BudgetAsked | ToolApprovalAsked | HookApprovalAsked | UserInputAsked

Answers = dict[str, tuple[str, ...]]
"""The answers by question id: a label, or other words."""


class ApprovalDecided(msgspec.Struct, frozen=True, gc=False, tag="approval_decided"):
    """An answer to a question. Only the first answer to a question counts (`effective`)."""

    call_id: str
    decision: Decision
    source: str  # who answered: "client", or the rule that answered because nobody could
    effective: bool = True
    key: str | None = None  # what an approval for the session covers
    by: str = "local"  # the caller in whose name it was answered
    word: str = ""  # told to the model with a refusal
    answer_id: str = ""  # which answer this is, if the answerer wants to know
    door: str = ""  # where it came in: `terminal`, `mcp-stdio`, `mcp-http`, `rest`, `page`, `acp`, …; empty if a rule answered
    address: str = ""  # of the machine that answered over a network
    client: str = ""  # the name that the answering program gives itself; it may be false
    answers: Answers | msgspec.UnsetType = msgspec.UNSET  # to `UserInputAsked`

    def from_afar(self) -> str:
        """The server's door, the address and the program by which the answer came; empty if it came through no such door."""
        if self.door not in ("mcp-http", "rest", "page"):
            return ""
        place = f"{self.door} from {self.address}" if self.address else self.door
        return f"{place}, {self.client}" if self.client else place


QuestionRecord = (
    CommandApprovalAsked
    | PatchApprovalAsked
    | BudgetAsked
    | ToolApprovalAsked
    | HookApprovalAsked
    | UserInputAsked
    | ApprovalDecided
)
