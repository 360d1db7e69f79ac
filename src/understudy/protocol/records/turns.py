"""A conversation and its turns: callers' choices, beginnings and ends of turns, messages, token counts, and compactions."""

from typing import Any, Literal

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import ApprovalPolicy, Mode, PlanStatus, SandboxMode
from understudy.protocol.items import FunctionCallOutput, Message, ModelItem, Usage

__all__ = [
    "AnswerRejected",
    "Budget",
    "Compacted",
    "CompactionStarted",
    "Failure",
    "ItemReceived",
    "Noticed",
    "Opened",
    "Overrides",
    "Pin",
    "Pins",
    "PlanStep",
    "PlanUpdated",
    "Renamed",
    "RequestSent",
    "RetryScheduled",
    "Shortened",
    "Terms",
    "TokensCounted",
    "ToolAnswered",
    "TurnDropped",
    "TurnEnded",
    "TurnQueued",
    "TurnRecord",
    "TurnStarted",
    "UserMessage",
    "Workspace",
]


class Workspace(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The files that a conversation is about, and where they come from; chosen when it begins.

    `folder`: an existing folder. `volume`: storage that can be attached to another host. `git`: a clone that is made for the
    conversation.
    """

    kind: Literal["folder", "volume", "git"] = "folder"
    path: str = ""  # where a clone was made
    url: str = ""
    commit: str = ""  # set once it is cloned; empty: the repository had no commit
    setup: tuple[str, ...] = ()  # shell commands to run, sandboxed, in a new clone
    host: str = ""  # where it was made


class Overrides(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a caller chose for a conversation, or from one message on. `None` means: as before."""

    model: str | None = None
    profile: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: SandboxMode | None = None
    config: dict[str, Any] | None = None  # dotted keys of config.toml; in the log it never holds a secret
    base_instructions: str | None = None
    developer_instructions: str | None = None
    compact_prompt: str | None = None
    include_plan_tool: bool | None = None
    mode: Mode | None = None
    workspace: Workspace | None = None


class Budget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What may be used. None: no limit."""

    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None  # working time; time spent waiting for a person does not count
    requests: int | None = None  # to the model


class Terms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a message asks of the turn it is sent to, and of no other."""

    output_schema: dict[str, Any] | None = None  # the form that the final answer should have
    budget: Budget | None = None  # from this message to the end of the turn
    insists: bool = True  # on the form. False: an answer that does not fit is accepted if the model cannot be asked again
    until: str = ""  # a shell command of the user: the turn continues until it succeeds


class Pin(msgspec.Struct, frozen=True, gc=False):
    """A place that the user named, and what was there when it was pinned; see `places`."""

    spelled: str
    path: str  # resolved
    device: int
    inode: int  # 0: nothing was there


class Pins(msgspec.Struct, frozen=True, gc=False):
    """Where a conversation works: its working directory and the other writable roots."""

    boot: str  # id of the machine's boot; device numbers are only valid within one boot
    places: tuple[Pin, ...]


class CompactionStarted(msgspec.Struct, frozen=True, gc=False, tag="compaction_started"):
    """Intent: the model is asked for a summary. If no `Compacted` follows, the history is unchanged."""

    reason: Literal["limit", "full", "asked"]  # the provider counted so many tokens or refused any more, or somebody asked for it
    tokens: int  # in use, by the provider's count or our estimate


class Shortened(msgspec.Struct, frozen=True, gc=False, array_like=True):
    seq: int  # the record of the item
    characters: int  # characters of its text that are still sent


class Compacted(msgspec.Struct, frozen=True, gc=False, tag="compacted", omit_defaults=True):
    """From here on the model is sent less of the earlier history. The earlier records stay, and people still see them as before."""

    kind: Literal["summary", "trimmed"]  # trimmed: items were dropped without a summary by the model
    tokens_before: int
    tokens_after: int  # an estimate
    summary: str = ""  # the model's own words
    note: str = ""  # text before the summary: why something is missing, the plan, running commands, changed files
    kept: tuple[int, ...] | None = None  # records whose items are still sent; None: all
    recent: int = 0  # the first kept record that comes after note and summary; 0: none does
    shortened: tuple[Shortened, ...] = ()
    total: Usage | None = None  # usage of all answers of the conversation so far

    def describe(self) -> str:
        """A line for people."""
        trimmed = "old outputs are no longer sent" if self.kept is None else "the oldest part of it is no longer sent"
        how = "the model summed up what was before" if self.kind == "summary" else trimmed
        return f"context compacted: {how} ({self.tokens_before} tokens before, about {self.tokens_after} after)"


class Opened(msgspec.Struct, frozen=True, gc=False, tag="opened"):
    """The first record. `overrides` includes what the configuration gave, so that continuing later means the same."""

    conversation_id: str
    model: str
    overrides: Overrides
    provider: str = ""
    pins: Pins | None = None  # None in older logs
    owner: str = LOCAL_NAME  # the name of the caller who made it
    thread_source: str | None = None  # what the program that began it calls itself: `exec --thread-source`


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
    compacts: bool = False  # not a message: the model is asked for a summary of the earlier history
    window: int | None = None  # tokens that the model can read at once; None: unknown


class RequestSent(msgspec.Struct, frozen=True, gc=False, tag="request_sent", omit_defaults=True):
    """A model request begins. With it, the named messages enter the history."""

    consumed: tuple[str, ...] = ()
    context: tuple[Message, ...] = ()  # what the model is told of its environment, if it is new; empty: as before
    given: tuple[Message, ...] = ()  # added after the named messages: skills that they name


class ItemReceived(msgspec.Struct, frozen=True, gc=False, tag="item", omit_defaults=True):
    item: ModelItem
    show_raw: bool = False  # the user wants to see raw reasoning


class ToolAnswered(msgspec.Struct, frozen=True, gc=False, tag="tool_answered"):
    """What the model is given for a call."""

    output: FunctionCallOutput
    success: bool = True


class AnswerRejected(msgspec.Struct, frozen=True, gc=False, tag="answer_rejected"):
    """The answer lacks the requested form: the model is told why and tries again."""

    problem: str

    def describe(self) -> str:
        """A line for people."""
        return f"the answer does not have the form that was asked for: {self.problem}; the model tries again"


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
    cost_usd: float | None = None  # cost of this answer, by the price at that time; None: unknown
    cut: bool = False  # its turn ended while a call of the answer ran


class Noticed(msgspec.Struct, frozen=True, gc=False, tag="noticed", omit_defaults=True):
    """A notice to everyone who watches."""

    message: str
    withdraws: bool = False  # the shown part of an unfinished answer is void


class RetryScheduled(msgspec.Struct, frozen=True, gc=False, tag="retry_scheduled", omit_defaults=True):
    """No answer came, or it broke off: the model is asked again after `delay` seconds."""

    attempt: int
    of: int
    delay: float
    why: str
    status: int | None = None  # the HTTP status, if that is why

    def describe(self) -> str:
        """A line for people."""
        return f"stream error: {self.why}; retrying {self.attempt}/{self.of} in {format_delay(self.delay)}…"


def format_delay(seconds: float) -> str:
    """`195ms`, `1.752s`."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds < 1000 else f"{milliseconds / 1000:g}s"


class Renamed(msgspec.Struct, frozen=True, gc=False, tag="renamed"):
    """The conversation has this title from here on, in lists."""

    title: str
    by: str = LOCAL_NAME

    def describe(self) -> str:
        """A line for people."""
        return f"the conversation is now called {self.title}"


class TurnQueued(msgspec.Struct, frozen=True, gc=False, tag="turn_queued"):
    """A message accepted for a turn of its own, after the running one. It is recorded again when that turn begins."""

    message: UserMessage

    def describe(self) -> str:
        """A line for people."""
        return f"a message waits for a turn of its own: {self.message.message.text()}"


class TurnDropped(msgspec.Struct, frozen=True, gc=False, tag="turn_dropped", omit_defaults=True):
    """A queued message that will begin no turn: it was taken back, or no turn can begin with it for this reason."""

    message_id: str
    reason: str | None = None

    def describe(self) -> str:
        """A line for people."""
        why = "it was taken back" if self.reason is None else self.reason
        return f"a message that waited begins no turn: {why}"


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a turn failed, for programs. The message of the turn's end says the same to people."""

    kind: str  # the error's kind: `context_full`, `model_unavailable`, …
    status: int | None = None  # the HTTP status
    words: str = ""  # the provider's words and what a person can do, if there is a status


class TurnEnded(msgspec.Struct, frozen=True, gc=False, tag="turn_ended", omit_defaults=True):
    reason: Literal["completed", "failed", "interrupted"]
    message: str | None = None  # the last answer, or why the turn failed
    unfinished: str | None = None  # shown text of an answer that was cut off, so the model is reminded of it
    asked_for: bool = False  # by an interrupt op, which took a submission number of its own
    cut_at: float | None = None  # for a turn cut off by a crash: the time of its last record before this end
    failure: Failure | None = None  # None: it did not fail, or the record predates causes

    def describe_failure(self) -> str:
        """Text for programs: the status and the provider's own words, if any."""
        told = self.failure
        if told is None or told.status is None:
            return self.message or "the turn failed"
        return f"HTTP {told.status}: {told.words}" if told.words.strip() else f"HTTP {told.status}"


TurnRecord = (
    Opened
    | UserMessage
    | TurnStarted
    | RequestSent
    | ItemReceived
    | ToolAnswered
    | AnswerRejected
    | PlanUpdated
    | TokensCounted
    | CompactionStarted
    | Compacted
    | Noticed
    | RetryScheduled
    | Renamed
    | TurnQueued
    | TurnDropped
    | TurnEnded
)
