"""What the acts need of the turn that runs them. Tools do not get this: they are handed a `ToolContext`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from understudy.places.places import Places
from understudy.protocol.choices import ApprovalPolicy, Decision, OutputStream, SandboxMode
from understudy.protocol.records import Answers, Delta, Question, Record

if TYPE_CHECKING:  # names only: a server starts before any tool is called
    from understudy.policy.rules import Rules
    from understudy.sandbox.spec import Command, CommandResult, Containment
    from understudy.tools.mcp.servers import Servers
    from understudy.tools.patch.turn_diff import TurnDiff
    from understudy.tools.session import Sessions
    from understudy.tools.unsaved_texts import UnsavedTexts


PLANS = "plan mode is on, so nothing may be changed yet: look around, then propose a plan for the user to agree to"


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A decision and who made it: the client, or the rule that answers when nobody can."""

    decision: Decision
    source: str
    word: str = ""  # what a person has to say to a refusal
    answers: Answers = {}  # to what the model wanted to know

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
    roots: tuple[str, ...]  # cwd and the other writable roots, absolute: what counts as the project
    environment: dict[str, str]
    rules: "Rules"
    protected: tuple[str, ...]
    places: Places
    home: str = ""
    default_timeout: float = 60.0  # seconds
    most_sessions: int = 16  # commands of a conversation that may run beyond their calls
    idle_seconds: float = 1800.0  # after which one of them is ended, if the model does not ask for it
    output_tokens: int | None = None  # what a model is given of one output at most; None: our own measures
    plans: bool = False  # plan mode: nothing is changed, whatever rules and people have allowed before
    state: str = ""  # our own folder, where conversations lock the folders that a command depends on; empty: they do not


class CoveredCommand(Protocol):
    """One that runs, and is kept from a path by a mount on what stands there."""

    argv: tuple[str, ...]
    owner: str


class RunsCommands(Protocol):
    async def run(self, command: "Command", on_output: Callable[[OutputStream, bytes], None]) -> "CommandResult": ...

    def covering(self, paths: Sequence[str]) -> Sequence[CoveredCommand]:
        """Those whose mounts would fall off if what stands at one of these paths were replaced, made or removed."""
        ...

    async def end_covering(self, paths: Sequence[str], why: str) -> None:
        """End those, and wait until nothing of them is left."""
        ...


class ToolHost(Protocol):
    """The turn, as the acts see it."""

    @property
    def settings(self) -> ToolSettings: ...

    @property
    def owner(self) -> str:
        """Whose conversation it is."""
        ...

    @property
    def sandbox(self) -> RunsCommands: ...

    @property
    def sessions(self) -> "Sessions":
        """The conversation's commands that may outlive their calls."""
        ...

    @property
    def servers(self) -> "Servers | None":
        """Other servers, whose tools the model is offered."""
        ...

    @property
    def diff(self) -> "TurnDiff": ...

    @property
    def unsaved(self) -> "UnsavedTexts | None":
        """What editors that have the conversation open say of its files; None: none has."""
        ...

    def record(self, *records: Record) -> None:
        """Append to the log."""
        ...

    async def committed(self) -> None:
        """Wait until what was recorded is on disk: an act may follow."""
        ...

    def emit(self, delta: Delta) -> None: ...

    async def ask(self, question: Question) -> ApprovalAnswer:
        """Put a question to whoever may answer. Raises when the answer ends the turn."""
        ...

    def open_question(self, call_id: str) -> Question | None:
        """A question about this call that was open when the process that asked it ended."""
        ...

    def is_approved(self, key: Callable[[], str]) -> bool:
        """For the rest of the session, by an earlier answer; the key is asked for only where there is any."""
        ...
