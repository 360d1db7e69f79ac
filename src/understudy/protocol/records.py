"""What the log of a conversation holds, in order. Everything else (history, events, status) is a fold over these.

Wire events are projected from records in `servers`; nothing here knows a wire.
"""

from typing import Any, Literal

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.changes import FileChange
from understudy.protocol.choices import ApprovalPolicy, BudgetLimit, Decision, PlanStatus, SandboxMode
from understudy.protocol.items import FunctionCallOutput, Message, ModelItem, Usage
from understudy.protocol.viewed import ImageViewed


class Overrides(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a caller chose for a conversation, or from one message on. `None` means: as before."""

    model: str | None = None
    profile: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxMode | None = None
    config: dict[str, Any] | None = None  # dotted keys of config.toml; never holds a secret once it is in the log
    base_instructions: str | None = None
    developer_instructions: str | None = None
    compact_prompt: str | None = None
    include_plan_tool: bool | None = None


class Budget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What may be used. None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None  # of work; waiting for a person is none
    requests: int | None = None  # to the model


class Terms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a message asks of the turn it is sent to, and of no other."""

    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    budget: Budget | None = None  # from this message to the end of the turn


class Pin(msgspec.Struct, frozen=True, gc=False):
    """A place that the user named, and what stood there when it was pinned; see `places`."""

    spelled: str
    path: str  # real
    device: int
    inode: int  # 0: nothing


class Pins(msgspec.Struct, frozen=True, gc=False):
    """Where a conversation works: its working directory and the other writable roots."""

    boot: str  # of the machine; device numbers hold for one
    places: tuple[Pin, ...]


class Opened(msgspec.Struct, frozen=True, gc=False, tag="opened"):
    """The first record. `overrides` is filled in with what the configuration gave, so that going on later means the same."""

    conversation_id: str
    model: str
    overrides: Overrides
    provider: str = ""
    pins: Pins | None = None  # None in logs from before there were any
    owner: str = LOCAL_NAME  # the name of the caller who made it


class UserMessage(msgspec.Struct, frozen=True, gc=False, tag="user_message"):
    """Input that was accepted. It reaches the model with the request that names it."""

    message_id: str
    message: Message
    overrides: Overrides | None = None
    parent_message_id: str | None = None
    pins: Pins | None = None  # from here on; None: as before
    terms: Terms | None = None


class TurnStarted(msgspec.Struct, frozen=True, gc=False, tag="turn_started", omit_defaults=True):
    turn_id: str
    compacts: bool = False  # nobody sent a message: the model is to sum up what was before
    window: int | None = None  # tokens that the model can read at once; None: not known


class RequestSent(msgspec.Struct, frozen=True, gc=False, tag="request_sent", omit_defaults=True):
    """A model request begins, and with it the named messages enter the history."""

    consumed: tuple[str, ...] = ()
    context: tuple[Message, ...] = ()  # what the model is told of its place, where that is new; empty: as before


class ItemReceived(msgspec.Struct, frozen=True, gc=False, tag="item", omit_defaults=True):
    item: ModelItem
    show_raw: bool = False  # the user wants to see raw reasoning


class ToolAnswered(msgspec.Struct, frozen=True, gc=False, tag="tool_answered"):
    """What the model is given for a call."""

    output: FunctionCallOutput
    success: bool = True


class CommandStarted(msgspec.Struct, frozen=True, gc=False, tag="command_started", omit_defaults=True):
    """Intent: on disk before the command runs."""

    call_id: str
    command: tuple[str, ...]
    cwd: str
    contained: bool
    session: int | None = None  # of one that may outlive its call and its turn: the number by which the model speaks of it
    tty: bool = False  # it has a terminal


class CommandEnded(msgspec.Struct, frozen=True, gc=False, tag="command_ended"):
    call_id: str
    stdout: str
    stderr: str
    exit_code: int
    duration: float  # seconds
    timed_out: bool = False
    denied: bool = False  # the sandbox seems to have refused something
    started: CommandStarted | None = None  # of a session: it may have begun many turns ago
    untold: bool = False  # of a session: no call of the model waited for its end
    ended_by: str = ""  # of a session that did not end by itself, nor for the user: why. The model is told with the next request


class InputWritten(msgspec.Struct, frozen=True, gc=False, tag="input_written"):
    """Intent: something is typed at the terminal of a session, or it is asked to stop."""

    call_id: str  # of the call that began the session
    session: int
    text: str


class PatchStarted(msgspec.Struct, frozen=True, gc=False, tag="patch_started"):
    """Intent: on disk before a file is touched."""

    call_id: str
    changes: dict[str, FileChange]
    auto_approved: bool


class PatchEnded(msgspec.Struct, frozen=True, gc=False, tag="patch_ended"):
    call_id: str
    stdout: str
    stderr: str
    success: bool


OWN_SERVER = "codex"  # as whose tools our own are shown that have no events of their kind


class ToolCallBegan(msgspec.Struct, frozen=True, gc=False, tag="tool_call_began", omit_defaults=True):
    """Intent: on disk before another server is asked to do anything."""

    call_id: str
    server: str
    tool: str  # as the server calls it
    arguments: dict[str, Any] | None = None  # shortened, where they are long
    read_only: bool = False  # by what the server says of its tool


class ToolCallEnded(msgspec.Struct, frozen=True, gc=False, tag="tool_call_ended", omit_defaults=True):
    """`result` is what the tool gave, in the shape of MCP; where it gave nothing, `error` says why."""

    call_id: str
    server: str
    tool: str
    seconds: float
    arguments: dict[str, Any] | None = None
    read_only: bool = False
    result: dict[str, Any] | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        return self.result is None or self.result.get("isError") is True

    def describe(self) -> str:
        """What the tool said, as text."""
        if self.result is None:
            return self.error or ""
        parts: list[dict[str, Any]] = self.result.get("content", [])
        return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in parts)


class ServersChecked(msgspec.Struct, frozen=True, gc=False, tag="servers_checked"):
    """Whose tools the model is offered from here on, and which servers are missing, with the reason."""

    ready: tuple[str, ...]
    missing: dict[str, str]

    def describe(self) -> str:
        """For people, in a line; empty where there is nothing to tell."""
        told = "; ".join(f"{server} ({why})" for server, why in self.missing.items())
        return f"MCP servers that are missing, and their tools with them: {told}" if told else ""


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


Question = CommandApprovalAsked | PatchApprovalAsked | BudgetAsked | ToolApprovalAsked


class ApprovalDecided(msgspec.Struct, frozen=True, gc=False, tag="approval_decided"):
    """An answer to a question. Only the first for its question counts (`effective`)."""

    call_id: str
    decision: Decision
    source: str  # who answered: "client", or the rule that answered for nobody
    effective: bool = True
    key: str | None = None  # what an approval for the session covers
    by: str = "local"  # the caller in whose name it was answered


class AnswerRejected(msgspec.Struct, frozen=True, gc=False, tag="answer_rejected"):
    """The answer does not have the form that was asked for: the model is told why, and tries again."""

    problem: str


class PlanStep(msgspec.Struct, frozen=True, gc=False):
    step: str
    status: PlanStatus


class PlanUpdated(msgspec.Struct, frozen=True, gc=False, tag="plan_updated"):
    plan: tuple[PlanStep, ...]
    explanation: str | None = None


class TokensCounted(msgspec.Struct, frozen=True, gc=False, tag="tokens_counted"):
    """Tokens of one answer, and of all answers of the conversation so far."""

    usage: Usage
    total: Usage | None = None
    cost_usd: float | None = None  # of this answer, by the price that held then; None: not known


class CompactionStarted(msgspec.Struct, frozen=True, gc=False, tag="compaction_started"):
    """Intent: the model is asked for a summary. Where no `Compacted` follows, the history is as it was."""

    reason: Literal["limit", "full", "asked"]  # the provider counted that many tokens, refused any more, or somebody wants it
    tokens: int  # in use, by the provider's count or our estimate


class Shortened(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int  # the record that the item is from
    characters: int  # of its text that are still sent


class Compacted(msgspec.Struct, frozen=True, gc=False, tag="compacted", omit_defaults=True):
    """From here on the model is sent less of what was before. The records before it stay, and so does what they are shown as."""

    kind: Literal["summary", "trimmed"]  # trimmed: no model has summed up what is no longer sent
    tokens_before: int
    tokens_after: int  # an estimate
    summary: str = ""  # the model's own words
    note: str = ""  # what goes before them: why something is missing, the plan, running commands, changed files
    kept: tuple[int, ...] | None = None  # records whose items are still sent; None: all
    recent: int = 0  # the first of them that comes after note and summary; 0: none does
    shortened: tuple[Shortened, ...] = ()
    total: Usage | None = None  # of all answers of the conversation so far

    def describe(self) -> str:
        """For people, in a line."""
        trimmed = "old outputs are no longer sent" if self.kept is None else "the oldest part of it is no longer sent"
        how = "the model summed up what was before" if self.kind == "summary" else trimmed
        return f"context compacted: {how} ({self.tokens_before} tokens before, about {self.tokens_after} after)"


class DiffChanged(msgspec.Struct, frozen=True, gc=False, tag="diff_changed"):
    unified_diff: str


class Noticed(msgspec.Struct, frozen=True, gc=False, tag="noticed", omit_defaults=True):
    """A word to whoever watches."""

    message: str
    withdraws: bool = False  # what was shown of an unfinished answer does not count


class TurnEnded(msgspec.Struct, frozen=True, gc=False, tag="turn_ended"):
    reason: Literal["completed", "failed", "interrupted"]
    message: str | None = None  # the last answer, or why it failed
    unfinished: str | None = None  # what the model had said of an answer that was cut off: shown, so the model is reminded of it
    asked_for: bool = False  # by an interrupt op, which took a submission number of its own
    cut_at: float | None = None  # of a turn that a crash cut off: the time of its last record before this end


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
    | ServersChecked
    | ApprovalDecided
    | AnswerRejected
    | PlanUpdated
    | TokensCounted
    | CompactionStarted
    | Compacted
    | DiffChanged
    | Noticed
    | TurnEnded
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record in its place. `turn` is the submission id its events carry; `parent` the record it follows on its path."""

    seq: int
    parent: int
    turn: str
    at: float  # seconds since the epoch
    record: Record


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More of the answer being written. Deltas are not in the log: the finished item is."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    text: str
    raw: bool = False


class OutputDelta(msgspec.Struct, frozen=True, gc=False):
    call_id: str
    stream: Literal["stdout", "stderr"]
    chunk: bytes


Delta = TextDelta | ReasoningDelta | OutputDelta
