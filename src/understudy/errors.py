"""Every failure a caller can tell apart.

AgentError                     anything we raise on purpose; its text is written for the person or model that reads it
├── BadRequest                 the caller's arguments are wrong
│   ├── UnknownConversation
│   ├── NotAllowed             the caller may not do that to this conversation
│   │   └── LacksRight         one of `run`, `approve`, `read` and `budget`, on their own conversations or on those of others
│   ├── TooManyTurns           the caller has as many turns at work as it may have
│   ├── BudgetSpent            the caller has used what they may use in this day, week or month, or asks for more than is left
│   └── InvalidArguments
├── ConfigError                config.toml, a profile or an override is wrong
├── ModelError                 the model could not answer
│   ├── StreamLost             the stream broke; the turn asks again
│   ├── ModelUnavailable       a request that kept failing; the turn asks again
│   ├── ModelRefused           a status that time does not mend; final
│   │   ├── ContextFull        what was sent does not fit into the model's context window
│   │   └── ImagesRefused      the provider cannot use an image; the turn asks again without the newest ones
│   ├── OutOfTime              the seconds of a budget ran out meanwhile; the turn asks a person
│   └── MissingKey             no credential for the provider; final
├── TurnStopped                a turn ends before its work is done
│   ├── ServersMissing         an MCP server that the user requires does not start
│   ├── BudgetReached          what may be used is used up, and nobody raised the limit
│   └── AnswerMisfit           the answer does not have the form that was asked for
├── ToolError                  told to the model; the turn goes on
│   └── PatchError
├── WorkspaceFailed            no workspace could be made, or what is in it could not be kept
│   └── WorkspaceAway          it is on another host, or gone, and cannot be had here at present
├── SandboxError               a command could not be contained, so it was not run
└── StoreError                 the log could not be read or written
    ├── CannotBeRecorded       one record could not be encoded; the log itself is well
    ├── Unavailable            the database was away for longer than anybody waits
    ├── StoreGone              its files were taken away: this process reads and writes it no more
    ├── Fenced                 another process owns the conversation now
    ├── HostAway               its files are on a machine that nobody serves now
    └── ConversationBusy       another process runs a turn of it
        └── StandsElsewhere    its files are on another machine, where it runs
"""

import errno
import os
from typing import TYPE_CHECKING, ClassVar, Literal, Self

if TYPE_CHECKING:
    from logging import Logger


_TOO_MANY_FILES = "too many files are open; raise the limit (`ulimit -n`), or have fewer turns at once"
_LACKS = {
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.ENOMEM: "there is no memory left; free some and try again",
    errno.EAGAIN: "no more processes or threads can be started; raise the limit (`ulimit -u`), or have fewer turns at once",
}
_FEW_FILES = 8  # a program that failed to make several files has perhaps removed some again


def what_is_lacking(error: BaseException) -> str | None:
    """What the machine has run out of, where that is why something failed."""
    if isinstance(error, MemoryError):
        return _LACKS[errno.ENOMEM]
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _LACKS[errno.EAGAIN]
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOSPC and takes_no_more_files(os.path.dirname(str(error.filename))):
        return "the disk can hold no more files, though it may have space (`df -i`); delete some and try again"
    return _LACKS.get(error.errno or 0)


def takes_no_more_files(folder: str) -> bool:
    """Whether the disk of this folder has no more inodes. Systems say then that it is full, and `df` that it is not."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_files > 0 and disk.f_favail < _FEW_FILES


def how_to_add(extra: str) -> str:
    """From the checkout: `understudy` on the package index is somebody else's, and ours is named `understudy-codex`."""
    others = "name your other extras there, too, or they are removed"
    return f"install understudy with the extra `{extra}`, from its checkout: uv tool install '.[{extra}]' ({others})"


def report_bug(logger: "Logger", error: BaseException, what: str, *details: object) -> str:
    """Log an error that nobody foresaw, and return what the caller is told: not what went wrong, but where it can be read.

    Where the machine has run out of something, nobody is to blame, and that is what the caller is told.
    """
    if (lack := what_is_lacking(error)) is not None:
        logger.error(f"{what}: {lack}", *details)
        return lack
    number = os.urandom(4).hex()
    logger.error(f"bug {number}: {what}", *details, exc_info=error)
    return f"internal error\nThis is a bug in understudy. The server's log (standard error) says more: look for `bug {number}`."


class AgentError(Exception):
    kind: ClassVar[str] = "agent_error"


class BadRequest(AgentError):
    kind = "bad_request"


class UnknownConversation(BadRequest):
    kind = "unknown_conversation"


class NotAllowed(BadRequest):
    kind = "not_allowed"


class LacksRight(NotAllowed):
    def __init__(self, message: str, right: str, *, on_others: bool = False) -> None:
        super().__init__(message)
        self.right = right
        self.on_others = on_others


class TooManyTurns(BadRequest):
    kind = "too_many_turns"


class BudgetSpent(BadRequest):
    kind = "budget_spent"


class InvalidArguments(BadRequest):
    kind = "invalid_arguments"


class ConfigError(AgentError):
    kind = "config_error"


class ModelError(AgentError):
    kind = "model_error"
    status: int | None = None  # of HTTP, where the provider answered with one that means a failure
    words: str = ""  # what the provider said of it, and what a person can do: the text without the status

    def with_status(self, status: int | None, words: str) -> Self:
        self.status, self.words = status, words
        return self


class StreamLost(ModelError):
    """The answer broke off. Asking again may help, after `retry_after` seconds where the provider said so."""

    kind = "stream_lost"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelUnavailable(ModelError):
    """No answer came, even after several tries. `brief` is what viewers are shown; `lasting`: time alone will not mend it."""

    kind = "model_unavailable"

    def __init__(self, message: str, *, brief: str | None = None, lasting: bool = False) -> None:
        super().__init__(message)
        self.brief = message if brief is None else brief
        self.lasting = lasting


class ModelRefused(ModelError):
    kind = "model_refused"

    def __init__(self, message: str, *, codes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.codes = codes  # the provider's own, where it gave any


class ContextFull(ModelRefused):
    kind = "context_full"


class ImagesRefused(ModelRefused):
    """To callers it is a refusal like any other."""


class OutOfTime(ModelError):
    kind = "out_of_time"


class MissingKey(ModelError):
    kind = "missing_key"


class TurnStopped(AgentError):
    kind = "turn_stopped"


class ServersMissing(TurnStopped):
    kind = "servers_missing"


class BudgetReached(TurnStopped):
    kind = "budget_reached"


class AnswerMisfit(TurnStopped):
    kind = "answer_misfit"


class ToolError(AgentError):
    kind = "tool_error"


class PatchError(ToolError):
    kind = "patch_error"


class WorkspaceFailed(AgentError):
    kind = "workspace_failed"


class WorkspaceAway(WorkspaceFailed):
    kind = "workspace_away"


class SandboxError(AgentError):
    kind = "sandbox_error"


class StoreError(AgentError):
    kind = "store_error"


class Unavailable(StoreError):
    """It did not answer for too long. `outcome`: what was to be written may be there all the same, or surely is not."""

    def __init__(self, message: str, outcome: Literal["unknown", "not written"] = "not written") -> None:
        super().__init__(message)
        self.outcome = outcome


class Damaged(StoreError):
    """The log of one conversation cannot be read. Whoever tells of several leaves it out, and goes on."""


class CannotBeRecorded(StoreError):
    kind = "cannot_be_recorded"


class StoreGone(StoreError):
    pass


class Fenced(StoreError):
    kind = "fenced"


class HostAway(StoreError):
    kind = "host_away"


class ConversationBusy(StoreError):
    kind = "conversation_busy"


class StandsElsewhere(ConversationBusy):
    """An op for it is left as a letter."""
