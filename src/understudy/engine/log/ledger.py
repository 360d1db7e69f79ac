"""What a conversation has used and what its turns have done: a fold over the log, beside the one for the model's history.

No I/O and no clock: times come from the records. The time during which a question was open does not count as work.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from understudy.protocol.choices import BudgetLimit
from understudy.protocol.items import Usage
from understudy.protocol.records import (
    OWN_SERVER,
    AnswerRejected,
    ApprovalDecided,
    Budget,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    CompactionStarted,
    Entry,
    HookApprovalAsked,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    Question,
    RequestSent,
    ServersChecked,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
    UserInputAsked,
    UserMessage,
)
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

KEPT_TURNS = 4  # turns whose work is kept: whoever waits for a turn's end reads its work soon after
KEPT_COMMANDS = 200  # the newest commands of one turn
KEPT_FILES = 1_000
LONGEST_NAME = 200  # characters kept of a server's or tool's name
LONGEST_WORD = 4_000  # characters kept of a command

BUDGET_CALL = "budget-"  # how the call ids of questions about budgets begin


class Tally(msgspec.Struct):
    """The sum of what was used."""

    usage: Usage | None = None  # None: no provider has reported any
    known_usd: float = 0.0  # the cost of the answers whose price is known
    unpriced: bool = False  # some answers have no known price
    requests: int = 0
    seconds: float = 0.0  # working time of turns; time spent waiting for a person does not count

    @property
    def cost_usd(self) -> float | None:
        """None if the price of any answer is unknown."""
        return None if self.usage is None or self.unpriced else self.known_usd

    @property
    def tokens(self) -> int:
        return 0 if self.usage is None else self.usage.total_tokens

    def count(self, counted: TokensCounted) -> None:
        self.usage = counted.usage if self.usage is None else self.usage.plus(counted.usage)
        if counted.cost_usd is None:
            self.unpriced = True
        else:
            self.known_usd += counted.cost_usd


class Command(msgspec.Struct):
    """A command that was begun. `exit_code` is None while it runs, if it could not begin, and if its end is unknown."""

    call_id: str
    argv: tuple[str, ...]
    session: int | None = None
    ended: bool = False
    exit_code: int | None = None
    seconds: float = 0.0
    timed_out: bool = False


class ToolUse(msgspec.Struct, frozen=True):
    """A call of another server's tool."""

    server: str
    tool: str
    seconds: float
    failed: bool


class File(msgspec.Struct, frozen=True):
    """The combined changes of patches to one file."""

    change: str  # added, updated, deleted or moved
    added: int  # lines
    removed: int
    moved_from: str | None = None


class Allowance(msgspec.Struct):
    """What a message's own budget allows, counted from what was used by the time the message was accepted."""

    message_id: str
    budget: Budget
    before: Tally
    began: bool = False  # the message began the turn


class Form(msgspec.Struct, frozen=True):
    """The requested form of the answer."""

    schema: dict[str, Any]
    insists: bool


class Work(msgspec.Struct):
    """What one turn did, and the terms it must meet."""

    commands: list[Command] = []
    files: dict[str, File] = {}
    tools: list[ToolUse] = []
    missing_servers: dict[str, str] = {}  # with the reason
    spent: Tally = msgspec.field(default_factory=Tally)
    schema: dict[str, Any] | None = None  # the requested form of its answer; of several messages, the last one's
    insists: bool = True  # whether the answer must have that form
    until: str = ""  # a command that must succeed before the turn ends
    rejections: int = 0  # answers without the requested form
    allowances: list[Allowance] = []
    commands_left_out: int = 0
    files_left_out: int = 0
    tools_left_out: int = 0


class Ledger:
    """The sums of a whole log, including abandoned paths: what was spent there is spent."""

    def __init__(self) -> None:
        self.total = Tally()
        self.turns: dict[str, Work] = {}
        self._turn: str | None = None
        self._since: float | None = None  # when the running turn's current work began; None: no turn runs, or it waits for a person
        self._open: set[str] = set()  # questions
        self._patches: dict[str, dict[str, FileChange]] = {}  # begun patches
        self.raised: dict[
            tuple[str | None, BudgetLimit], float
        ] = {}  # raised by a person: whose limit (None: the conversation's), and the new value
        self._budget_questions: dict[str, BudgetAsked] = {}
        # terms of messages whose turn has not begun, with the message ids
        self._early: list[tuple[str, Allowance | Form | str]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and vars(self) == vars(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def apply(self, entry: Entry) -> None:
        """Count one entry, for a ledger that is used without a `State`."""
        if (count := self.APPLIED_BY.get(type(entry.record))) is not None:
            count(self, entry, entry.record)

    def work(self, turn: str) -> Work | None:
        """What a turn did; None if it is too old."""
        return self.turns.get(turn)

    def working_since(self) -> float | None:
        """When the running turn began to work, or resumed after its last question. The time since then is not counted yet."""
        return self._since

    def _turn_started(self, entry: Entry, record: TurnStarted) -> None:
        self._turn = record.turn_id
        if self._open or self._patches:
            self._open, self._patches = set(), {}
        self._since = entry.at
        work = self.turns[record.turn_id] = Work()
        for turn, term in self._early:
            if turn == record.turn_id:
                _hold_to(work, term, began=True)
        if self._early:
            self._early = []
        if len(self.turns) > KEPT_TURNS:
            del self.turns[next(iter(self.turns))]

    def _turn_ended(self, entry: Entry, record: TurnEnded) -> None:
        self._rest(entry, entry.at if record.cut_at is None else record.cut_at)
        self._turn = None
        if self._open or self._patches:
            self._open, self._patches = set(), {}
        if self._budget_questions:
            self._budget_questions = {}
        if self.raised:
            self.raised = {key: allowed for key, allowed in self.raised.items() if key[0] is None}

    def _user_message(self, entry: Entry, record: UserMessage) -> None:
        if record.terms is None:
            return
        terms: list[Allowance | Form | str] = []
        if record.terms.until:
            terms.append(record.terms.until)
        if record.terms.output_schema is not None:
            terms.append(Form(record.terms.output_schema, record.terms.insists))
        if record.terms.budget is not None:
            terms.append(Allowance(record.message_id, record.terms.budget, msgspec.structs.replace(self.total)))
        work = self.turns.get(entry.turn)
        for term in terms:
            if work is not None:
                _hold_to(work, term)
            else:
                self._early.append((entry.turn, term))

    def _answer_rejected(self, entry: Entry, record: AnswerRejected) -> None:
        work = self.turns.get(entry.turn)
        if work is not None:
            work.rejections += 1

    def _budget_asked(self, entry: Entry, record: BudgetAsked) -> None:
        self._budget_questions[record.call_id] = record
        self._asked(entry, record)

    def _rest(self, entry: Entry, at: float) -> None:
        if self._since is not None:
            seconds = at - self._since if at > self._since else 0.0
            self._since = None
            self.total.seconds += seconds
            if (work := self.turns.get(entry.turn)) is not None:
                work.spent.seconds += seconds

    def _asked(self, entry: Entry, record: Question) -> None:
        self._open.add(record.call_id)
        self._rest(entry, entry.at)

    def _answered(self, entry: Entry, call_id: str) -> None:
        if call_id in self._open:
            self._open.discard(call_id)
            if not self._open and self._turn is not None:
                self._since = entry.at

    def _decided(self, entry: Entry, record: ApprovalDecided) -> None:
        if record.effective:
            self._answered(entry, record.call_id)
            asked = self._budget_questions.pop(record.call_id, None)
            if asked is not None and record.decision in ("approved", "approved_for_session"):
                self.raised[asked.message_id, asked.limit] = asked.raised_to

    def _tool_answered(self, entry: Entry, record: ToolAnswered) -> None:
        self._answered(entry, record.output.call_id)

    def _request_sent(self, entry: Entry, record: RequestSent | CompactionStarted) -> None:
        self.total.requests += 1
        if (work := self.turns.get(entry.turn)) is not None:
            work.spent.requests += 1

    def _counted(self, entry: Entry, record: TokensCounted) -> None:
        self.total.count(record)
        if (work := self.turns.get(entry.turn)) is not None:
            work.spent.count(record)

    def _command_started(self, entry: Entry, record: CommandStarted) -> None:
        work = self.turns.get(entry.turn)
        if work is not None and record.command:  # empty: the arguments were refused
            if len(work.commands) == KEPT_COMMANDS:
                work.commands_left_out += 1
                del work.commands[0]
            argv = tuple([word[:LONGEST_WORD] for word in record.command])
            work.commands.append(Command(record.call_id, argv, record.session))

    def _command_ended(self, entry: Entry, record: CommandEnded) -> None:
        work = self.turns.get(entry.turn)
        for command in reversed(work.commands) if work is not None else ():
            if command.call_id == record.call_id and not command.ended:
                command.ended = True
                command.exit_code = record.exit_code if record.exit_code >= 0 else None
                command.seconds = record.duration
                command.timed_out = record.timed_out
                return

    def _patch_started(self, entry: Entry, record: PatchStarted) -> None:
        self._patches[record.call_id] = record.changes

    def _patch_ended(self, entry: Entry, record: PatchEnded) -> None:
        changes = self._patches.pop(record.call_id, None)
        work = self.turns.get(entry.turn)
        if changes is None or work is None or not record.success:
            return  # a patch is applied whole or not at all
        for path, change in changes.items():
            note_change(work.files, path, change)
        while len(work.files) > KEPT_FILES:
            work.files.popitem()
            work.files_left_out += 1

    def _tool_call_ended(self, entry: Entry, record: ToolCallEnded) -> None:
        work = self.turns.get(entry.turn)
        if work is not None and record.server != OWN_SERVER:
            if len(work.tools) == KEPT_COMMANDS:
                work.tools_left_out += 1
                del work.tools[0]
            name = record.tool[:LONGEST_NAME]
            work.tools.append(ToolUse(record.server[:LONGEST_NAME], name, record.seconds, record.failed))

    def _servers_checked(self, entry: Entry, record: ServersChecked) -> None:
        work = self.turns.get(entry.turn)
        if work is not None:
            work.missing_servers = record.missing

    APPLIED_BY: ClassVar[dict[type, Callable[["Ledger", Entry, Any], None]]] = {
        TurnStarted: _turn_started,
        TurnEnded: _turn_ended,
        RequestSent: _request_sent,
        CompactionStarted: _request_sent,
        TokensCounted: _counted,
        CommandApprovalAsked: _asked,
        PatchApprovalAsked: _asked,
        BudgetAsked: _budget_asked,
        ToolApprovalAsked: _asked,
        HookApprovalAsked: _asked,
        UserInputAsked: _asked,
        ServersChecked: _servers_checked,
        ApprovalDecided: _decided,
        UserMessage: _user_message,
        AnswerRejected: _answer_rejected,
        ToolAnswered: _tool_answered,
        CommandStarted: _command_started,
        CommandEnded: _command_ended,
        PatchStarted: _patch_started,
        PatchEnded: _patch_ended,
        ToolCallEnded: _tool_call_ended,
    }


def _hold_to(work: Work, term: Allowance | Form | str, *, began: bool = False) -> None:
    if isinstance(term, Allowance):
        term.began = began
        work.allowances.append(term)
    elif isinstance(term, str):
        work.until = term
    else:
        work.schema, work.insists = term.schema, term.insists


def note_change(files: dict[str, File], path: str, change: FileChange) -> None:
    """Add a change to those of the turn. A file that was added and then deleted is left out."""
    before = files.pop(path, None)
    added, removed = (before.added, before.removed) if before is not None else (0, 0)
    match change:
        case AddFile(content=content):
            kind = "added" if before is None else "updated"  # it had been deleted
            files[path] = File(kind, added + _lines(content), removed)
        case DeleteFile(content=content):
            if before is not None and before.moved_from is not None:
                path = before.moved_from
            if before is None or before.change != "added":
                files[path] = File("deleted", added, removed + _lines(content))
        case UpdateFile(unified_diff=diff, move_path=target):
            more, less = _changed(diff)
            kind = before.change if before is not None else "updated"
            origin = before.moved_from if before is not None else None
            if target is not None and target != path:
                origin = None if kind == "added" else origin or path
                kind = "added" if kind == "added" else "moved"
                path = target
                files.pop(path, None)
            files[path] = File(kind, added + more, removed + less, origin)


def _lines(content: str) -> int:
    return content.count("\n") + (not content.endswith("\n") and content != "")


def _changed(diff: str) -> tuple[int, int]:
    lines = diff.split("\n")
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
