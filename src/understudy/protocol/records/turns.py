"""A conversation and its turns: how they begin and end, what was said, and what the model used."""

from typing import Literal

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.choices import PlanStatus
from understudy.protocol.items import FunctionCallOutput, Message, ModelItem, Usage
from understudy.protocol.records.overrides import Overrides, Pins, Terms


class Opened(msgspec.Struct, frozen=True, gc=False, tag="opened"):
    """The first record. `overrides` is filled in with what the configuration gave, so that going on later means the same."""

    conversation_id: str
    model: str
    overrides: Overrides
    provider: str = ""
    pins: Pins | None = None  # None in logs from before there were any
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


class AnswerRejected(msgspec.Struct, frozen=True, gc=False, tag="answer_rejected"):
    """The answer does not have the form that was asked for: the model is told why, and tries again."""

    problem: str

    def describe(self) -> str:
        """For people, in a line."""
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
    cost_usd: float | None = None  # of this answer, by the price that held then; None: not known
    cut: bool = False  # its turn ended while a call of the answer ran


class Noticed(msgspec.Struct, frozen=True, gc=False, tag="noticed", omit_defaults=True):
    """A word to whoever watches."""

    message: str
    withdraws: bool = False  # what was shown of an unfinished answer does not count


class RetryScheduled(msgspec.Struct, frozen=True, gc=False, tag="retry_scheduled", omit_defaults=True):
    """No answer came, or it broke off: the model is asked again after `delay` seconds."""

    attempt: int
    of: int
    delay: float
    why: str
    status: int | None = None  # of HTTP, where that is why

    def describe(self) -> str:
        """For people, in a line."""
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
        """For people, in a line."""
        return f"the conversation is now called {self.title}"


class TurnQueued(msgspec.Struct, frozen=True, gc=False, tag="turn_queued"):
    """A message that was accepted for a turn of its own, after the running one. It is recorded again where that turn begins."""

    message: UserMessage

    def describe(self) -> str:
        """For people, in a line."""
        return f"a message waits for a turn of its own: {self.message.message.text()}"


class TurnDropped(msgspec.Struct, frozen=True, gc=False, tag="turn_dropped", omit_defaults=True):
    """A queued message that will begin no turn: it was taken back, or there is a reason why no turn can begin with it."""

    message_id: str
    reason: str | None = None

    def describe(self) -> str:
        """For people, in a line."""
        why = "it was taken back" if self.reason is None else self.reason
        return f"a message that waited begins no turn: {why}"


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a turn failed, for programs. The message of its end says the same to people."""

    kind: str  # of the error: `context_full`, `model_unavailable`, …
    status: int | None = None  # of HTTP
    words: str = ""  # what the provider said, and what a person can do, where there is a status


class TurnEnded(msgspec.Struct, frozen=True, gc=False, tag="turn_ended", omit_defaults=True):
    reason: Literal["completed", "failed", "interrupted"]
    message: str | None = None  # the last answer, or why it failed
    unfinished: str | None = None  # what the model had said of an answer that was cut off: shown, so the model is reminded of it
    asked_for: bool = False  # by an interrupt op, which took a submission number of its own
    cut_at: float | None = None  # of a turn that a crash cut off: the time of its last record before this end
    failure: Failure | None = None  # None: it did not fail, or the record is from before causes were recorded

    def describe_failure(self) -> str:
        """For programs: the status and the provider's own words, where there are any."""
        told = self.failure
        if told is None or told.status is None:
            return self.message or "the turn failed"
        return f"HTTP {told.status}: {told.words}" if told.words.strip() else f"HTTP {told.status}"
