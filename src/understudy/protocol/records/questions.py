"""Questions to a person, and their answers."""

from typing import Any

import msgspec

from understudy.protocol.choices import BudgetLimit, Decision
from understudy.protocol.records.files import FileChange

__all__ = [
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
    retries: bool = False  # the command has run contained and was refused something
    note: str | None = None  # why it is asked, in the words of a rule of the user's; `reason` may be the model's
    full_access: bool = False  # the mode has no sandbox that the command could leave
    depends_on: str = msgspec.field(default="", name="ground")  # digest of folder, programs and scripts; empty in older records
    typed_at: str | None = None  # the question is about input: for this command, which runs outside the sandbox if `full_access`


class PatchApprovalAsked(msgspec.Struct, frozen=True, gc=False, tag="patch_approval_asked"):
    call_id: str
    changes: dict[str, FileChange]
    reason: str | None = None
    outside: tuple[str, ...] = ()  # of these paths, those outside the writable roots
    protected: tuple[str, ...] = ()  # and those on the protected list
    replaced: tuple[str, ...] = ()  # and those where a file stands that an addition or a move replaces


class BudgetAsked(msgspec.Struct, frozen=True, gc=False, tag="budget_asked"):
    """A limit is reached: may it be raised? A refusal ends the turn."""

    call_id: str  # of no tool call: made up for the question
    limit: BudgetLimit
    used: float
    allowed: float
    raised_to: float  # what is allowed after a yes
    message_id: str | None = None  # whose call the limit is for; None: it is the conversation's


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
    """A hook wants a person to decide, or has failed. A yes lifts no other question: what is judged anyway is judged after it."""

    call_id: str  # of the call, or made up for a message
    event: str
    hook: str  # its key
    tool: str  # empty: it is about a message
    shown: str  # what is to be done
    reason: str  # the hook's words, or what went wrong with it
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
    options: tuple[InputOption, ...] = ()  # none: in the person's own words


class UserInputAsked(msgspec.Struct, frozen=True, gc=False, tag="user_input_asked"):
    """The model asks the person something. It permits nothing: the answer is only told to the model."""

    call_id: str
    questions: tuple[InputQuestion, ...]


Question = CommandApprovalAsked | PatchApprovalAsked | BudgetAsked | ToolApprovalAsked | HookApprovalAsked | UserInputAsked

Answers = dict[str, tuple[str, ...]]
"""What was answered, by the id of each question: a label, or other words."""


class ApprovalDecided(msgspec.Struct, frozen=True, gc=False, tag="approval_decided"):
    """An answer to a question. Only the first for its question counts (`effective`)."""

    call_id: str
    decision: Decision
    source: str  # who answered: "client", or the rule that answered for nobody
    effective: bool = True
    key: str | None = None  # what an approval for the session covers
    by: str = "local"  # the caller in whose name it was answered
    word: str = ""  # what the model is told with a refusal
    answer_id: str = ""  # which answer this is, where whoever gave it wants to know
    door: str = ""  # by which it came: `terminal`, `mcp-stdio`, `mcp-http`, `rest`, `page`, `acp`, …; empty where a rule answered
    address: str = ""  # of the machine from which it came, where it came over a network
    client: str = ""  # the program by which it came, as that calls itself: anybody can say anything
    answers: Answers | msgspec.UnsetType = msgspec.UNSET  # to `UserInputAsked`

    def from_afar(self) -> str:
        """By which door of a server it came, from which address, by which program; empty where it came by none of them."""
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
