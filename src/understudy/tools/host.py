"""What acts need from the turn that runs them. Tools get only a `ToolContext`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from understudy.places.places import Places
from understudy.protocol.choices import ApprovalPolicy, Decision, OutputStream, SandboxMode
from understudy.protocol.records import Answers, Delta, Question, Record

if TYPE_CHECKING:  # only names: a server starts before any tool is called
    from understudy.policy.rules import Rules
    from understudy.sandbox.spec import Command, CommandResult, Containment, Temporary
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


PLANS = "plan mode is on, so nothing may be changed yet: look around, then propose a plan for the user to agree to"


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A decision and its source: the client, or the rule that answers if nobody can."""

    decision: Decision
    source: str
    word: str = ""  # what a person says with a refusal
    answers: Answers = {}  # to the model's questions

    def refusal(self, what: str) -> str:
        """The refusal as the model is told it."""
        if self.source != "client":
            return f"{what} rejected: {self.source}"
        return f"{what} rejected by user: {self.word}" if self.word else f"{what} rejected by user"


class ToolSettings(msgspec.Struct, frozen=True):
    """What the user decided. The model chooses none of it."""

    cwd: str
    approval_policy: ApprovalPolicy
    sandbox_mode: SandboxMode
    containment: "Containment | None"  # None: danger-full-access
    roots: tuple[str, ...]  # cwd and the other writable roots, absolute: these count as the project
    environment: dict[str, str]
    rules: "Rules"
    protected: tuple[str, ...]
    places: Places
    home: str = ""
    default_timeout: float = 60.0  # seconds
    most_sessions: int = 16  # commands of a conversation that may outlive their calls at the same time
    idle_seconds: float = 1800.0  # a command is ended if the model does not ask about it for so long
    output_tokens: int | None = None  # the most that a model gets of one output; None: our own limits
    plans: bool = False  # plan mode: nothing is changed, whatever rules or people have allowed before
    state: str = ""  # our own folder, for locks on the folders that a command depends on; empty: no locks


class CoveredCommand(Protocol):
    """A running command that a mount keeps from a path."""

    argv: tuple[str, ...]
    owner: str


class RunsCommands(Protocol):
    async def run(self, command: "Command", on_output: Callable[[OutputStream, bytes], None]) -> "CommandResult": ...

    async def temporary(self, containment: "Containment", cwd: str) -> "Temporary":
        """Where the private folder of such a command is, and what the command calls it."""
        ...

    def covering(self, paths: Sequence[str]) -> Sequence[CoveredCommand]:
        """Commands that would lose a mount if one of these paths were replaced, removed or created."""
        ...

    async def end_covering(self, paths: Sequence[str], why: str) -> None:
        """End these commands, and wait until nothing is left of them."""
        ...


class ToolHost(Protocol):
    """The turn, as acts see it."""

    @property
    def settings(self) -> ToolSettings: ...

    @property
    def owner(self) -> str:
        """The owner of the conversation."""
        ...

    @property
    def sandbox(self) -> RunsCommands: ...

    @property
    def sessions(self) -> "Sessions":
        """The conversation's commands that may outlive their calls."""
        ...

    @property
    def servers(self) -> "Servers | None":
        """Other servers whose tools the model may call."""
        ...

    @property
    def diff(self) -> "TurnDiff": ...

    @property
    def unsaved(self) -> "UnsavedTexts | None":
        """Unsaved texts from editors that have the conversation open; None: there are no such editors."""
        ...

    def record(self, *records: Record) -> None:
        """Append to the log."""
        ...

    async def committed(self) -> None:
        """Wait until the records are on disk, after which an act may follow."""
        ...

    def emit(self, delta: Delta) -> None: ...

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Ask whoever may answer. Raises if the answer ends the turn."""
        ...

    def open_question(self, call_id: str) -> Question | None:
        """The question about this call that was open when an earlier process ended."""
        ...

    def is_approved(self, key: Callable[[], str]) -> bool:
        """Whether an earlier answer approved it for the session. `key` is called only if there was any such answer."""
        ...
