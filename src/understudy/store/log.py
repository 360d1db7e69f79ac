"""What a store of conversations can do: append with an epoch, read, list. SQLite, PostgreSQL and memory implement it.

An idle conversation has no holder. The process that runs a turn holds the claim, until it ends or loses it. Every append must
match the claim's epoch, so that a process that was overtaken cannot write.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Entry

if TYPE_CHECKING:
    from understudy.store.search.asked import Search

Status = Literal["running", "waiting", "idle"]


class RunningCommand(msgspec.Struct, frozen=True, gc=False):
    """A command that outlives its turn, as lists show it."""

    session_id: int
    command: str

    def shown(self) -> dict[str, int | str]:
        return {"session_id": self.session_id, "command": self.command}


class GoingOn(msgspec.Struct, frozen=True):
    """What runs in a conversation now: a turn, and commands that outlive their turns."""

    turn: str | None = None
    commands: tuple[RunningCommand, ...] = ()

    def __bool__(self) -> bool:
        return self.turn is not None or bool(self.commands)

    def shown(self) -> dict[str, Any]:
        """The value of `running` in results and lists."""
        commands = [command.shown() for command in self.commands]
        return {"commands": commands} if self.turn is None else {"turn": self.turn, "commands": commands}


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a list shows of a conversation. Derived from its log and stored separately, so that listing need not read logs."""

    title: str
    status: Status
    message_count: int
    cwd: str
    model: str
    pending: tuple[str, ...] = ()  # call ids of open questions
    tokens: int | None = None  # of all answers; None: unknown
    cost_usd: float | None = None  # None: unknown, or known only in part
    running: tuple[RunningCommand, ...] = ()  # commands; once their process has died, they no longer run
    turn: str | None = None  # the turn that has begun and not ended; once its process has died, it no longer runs
    thread_source: str | None = None  # the name that the program which began it gave itself

    def spent(self) -> dict[str, int | float]:
        """Tokens and cost, as lists show them; unknown ones are left out."""
        spent: dict[str, int | float] = {} if self.tokens is None else {"tokens": self.tokens}
        return spent if self.cost_usd is None else {**spent, "cost_usd": round(self.cost_usd, 6)}


LATEST = 253_402_300_799.0  # the last second that `datetime` can represent


class Listed(msgspec.Struct, frozen=True):
    """One row of a list."""

    conversation_id: ConversationId
    created_at: float
    updated_at: float
    summary: Summary
    archived: bool = False
    owner: str = LOCAL_NAME
    digest: bytes = b""  # of the last record; it covers all records before it
    last_seq: int = 0  # the number of that record; the summary covers all up to it


class Page(msgspec.Struct, frozen=True):
    rows: tuple[Listed, ...]
    next_cursor: str | None


class Position(msgspec.Struct, frozen=True):
    """How far a conversation's log goes, and whether letters wait in its inbox. `NOWHERE` if it does not exist."""

    epoch: int
    last_seq: int
    letters: bool = False
    as_of: int = 0  # the log's own mark of when this was true; a caller that hands a position back to the log keeps it

    def goes_beyond(self, seq: int) -> bool:  # by records, or by letters, which become records
        return self.letters or self.last_seq > seq


NOWHERE = Position(0, 0)


class Holder(msgspec.Struct, frozen=True):
    """The process that has the claim on a conversation, as far as the log can tell."""

    process: int | None = None  # its id on this machine; None if it is on another
    since: float | None = None
    host: str | None = None  # set if it is another host than ours


class SavedText(msgspec.Struct, frozen=True):
    """The text so far of unfinished items, kept beside the log. `after` is the last record before them."""

    after: int
    text: str = ""
    reasoning: str = ""
    raw_reasoning: str = ""
    outputs: tuple[tuple[str, str, bytes], ...] = ()  # call id, stream, the last part of what was printed

    @classmethod
    def of(cls, pieces: Sequence["SavedText"]) -> "SavedText":
        """Join texts that were saved one after the other."""
        return cls(
            max(piece.after for piece in pieces),
            "".join([piece.text for piece in pieces]),
            "".join([piece.reasoning for piece in pieces]),
            "".join([piece.raw_reasoning for piece in pieces]),
            next((piece.outputs for piece in reversed(pieces) if piece.outputs), ()),
        )


class Batch(msgspec.Struct, frozen=True):
    """Entries to append together. The first batch of a claim says so (`claims`): the log of one machine raises the epoch with it,
    other logs did so when they gave the claim. The first batch of a conversation creates it.
    """

    conversation_id: ConversationId
    epoch: int
    previous_seq: int
    entries: tuple[Entry, ...]
    summary: Summary
    claims: bool = False
    creates: bool = False
    clears_text: bool = False
    releases: bool = False  # also give back the claim, in the same step: whoever sees these entries can take it
    takes_letters: int = 0  # letters up to this number have been accepted with this batch
    beside: ConversationId | None = None  # create the copy on the host of that conversation, with the same workspace
    made_at: float | None = None  # set if its first record is older: a copy keeps the times of its records
    encoded: tuple[bytes, ...] = ()  # the JSON of the entries' records, if the caller has encoded them already


class Letter(msgspec.Struct, frozen=True):
    """An op for a conversation whose turn another process runs."""

    number: int
    op: Op


Committed = Callable[[BaseException | None], None]
Listener = Callable[[], None]


class CanBeLost:
    """The part of a claim that signals its loss. The event is made only when somebody asks for it, since few claims are lost."""

    is_lost = False
    on_lost: Listener | None = None
    _lost: asyncio.Event | None = None

    @property
    def lost(self) -> asyncio.Event:
        if self._lost is None:
            self._lost = asyncio.Event()
            if self.is_lost:
                self._lost.set()
        return self._lost

    def lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.lost.set()
            if self.on_lost is not None:
                self.on_lost()


class Claim(Protocol):
    """The right to append to one conversation."""

    @property
    def position(self) -> Position:
        """The last record when the claim was taken, read in the same step. What is written under the claim has the next epoch."""
        ...

    @property
    def lost(self) -> asyncio.Event:
        """Set on the event loop when the claim could not be kept: stop at once, another process may have the conversation."""
        ...

    is_lost: bool
    on_lost: Listener | None
    """The same for those who must not spend a task on waiting for it: called when the event is set."""

    def release(self) -> None:
        """Give the claim back. Does not wait, and may be called again."""


class Attendance(Protocol):
    """Whether somebody who follows a conversation could answer its questions, here or on another machine."""

    def note(self, conversation_id: ConversationId, is_attended: bool) -> None:
        """Let the others know about this process, unless they do."""

    async def is_elsewhere(self, conversation_id: ConversationId) -> bool:
        """Whether somebody in another process could answer."""
        ...


class EventLog(Protocol):
    """Reads and writes the records of all conversations; each conversation has its own log here.

    Writes are queued and report by a callback on the event loop. Reads are asynchronous, because the log may be remote; a log on
    the local disk answers without suspending.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes may write to it, too."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether each request takes a round trip over a network. If so, a claim is given back with the last append
        (`Batch.releases`), which saves a request, and closing may wait for others.
        """
        ...

    @property
    def attendance(self) -> Attendance | None:
        """Who could answer questions on which machine. None: nobody on another machine could."""
        ...

    def time(self) -> float:
        """The time for a new record. If the clock was set back, perhaps by mistake, the new time is not used at once."""
        ...

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch. `done` is called once it is durable, or with the error: `Fenced`, or another `StoreError`.

        If the log cannot be reached, the batch waits, but not for ever: then the error is `Unavailable`, which says whether the
        batch may have been written all the same.
        """
        ...

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        """Keep the text so far, unless a later epoch has begun or the conversation is gone.

        With `adds`, its texts are appended to those saved before; outputs are always whole.
        """
        ...

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        """Leave an op for the process that runs the conversation's turn."""
        ...

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        """Hide the conversation from the list, or show it again."""
        ...

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        """Delete the conversation. The caller holds its claim."""
        ...

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> Claim | Holder:
        """Take the conversation for a turn, or learn who has it. It need not exist yet.

        `known` is the caller's last position of it, with no letters waiting, and the `as_of` of its last claim: if the log can tell
        that nothing has changed since, it need not read. `NOWHERE` means that it is new and nobody else can know of it.
        """
        ...

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        """The other process that has it. With `identify`, also its process id if that can be found; that may be slow."""
        ...

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        """The positions of many conversations, from one query. Missing ones are left out."""
        ...

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        """The entries after a record, in order: at most `limit`, and fewer once their records have `most_bytes` bytes."""
        ...

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None: ...

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        """The letters in the inbox, in the order of arrival."""
        ...

    async def find(self, conversation_id: ConversationId) -> Listed | None: ...

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page: ...

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        """Call `told` on the event loop when another process may have changed the conversation or given up its claim.

        This is only a hint: it may come late, twice, for nothing or not at all, so the caller also looks every second. Returns a
        function that ends it.
        """
        ...


NO_CONVERSATION = ConversationId("00000000-0000-0000-0000-000000000000")  # for searches and writes that belong to no conversation


class Spent(msgspec.Struct, frozen=True):
    """What a caller has used."""

    tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0

    def plus(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost_usd + other.cost_usd, self.requests + other.requests)


class Verified(msgspec.Struct, frozen=True):
    """What reading all records found."""

    records: int  # how many were read
    total: int
    problems: tuple[str, ...]  # each names its conversation; their number is limited
    damaged: int  # how many conversations are damaged


BrokenKind = Literal["changed", "missing", "inserted", "moved", "cut", "head", "seal", "owner", "unreadable"]


class Broken(msgspec.Struct, frozen=True):
    """The first link of the chain that is broken."""

    seq: int
    kind: BrokenKind
    text: str


class Audited(msgspec.Struct, frozen=True):
    """What checking the chain of one conversation found."""

    conversation_id: str
    records: int  # how many were read
    head: str  # the last valid digest, in hexadecimal digits
    sealed: int  # the record up to which the seal covers it; 0 without a good seal
    older: int  # records from before there were digests: their digests were computed when the store was upgraded
    uncovered: int  # records that could not be read at that time and have no digest
    head_at: int | None = None  # the record whose digest was asked for
    broken: Broken | None = None


class Store(EventLog, Protocol):
    """An event log that this process opened by `open_store`, maintains and closes."""

    @property
    def place(self) -> str:
        """Where conversations are kept, in words for people."""
        ...

    @property
    def search(self) -> "Search":
        """The index for searching what was said and run."""
        ...

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        """The ids that begin with `beginning`, in order."""
        ...

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        """Count what this caller has used on that day (`2026-11-19`)."""
        ...

    async def spent(self, name: str, since: str) -> Spent:
        """What the caller has used since that day, in all processes."""
        ...

    async def count(self) -> int: ...

    async def size(self) -> int:
        """The size in bytes."""
        ...

    async def check(self) -> str:
        """The database's own check: `ok`, or what is damaged."""
        ...

    async def verify(self, most: int | None) -> Verified:
        """Read the records of the newest conversations, until `most` records have been read."""
        ...

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        """Check its chain of digests to the end, and find the record with the digest `head`. None if it does not exist."""
        ...

    async def without_entry(self) -> int:
        """How many conversations have records but are missing from the list."""
        ...

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        """Seal the conversation as it is. The caller holds its claim."""
        ...

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        """The conversations that were unused for longest, after this time and id."""
        ...

    async def used(self) -> int:
        """Bytes that conversations take, without the free space that deleted ones left."""
        ...

    async def shrink(self) -> int:
        """Give the free space of deleted conversations back, and return how many bytes that was. Others can write meanwhile."""
        ...

    def when_renewed(self, told: Callable[[float], None]) -> None:
        """Call `told` on the event loop with the time (of the monotonic clock) until which our claims certainly hold, and again
        whenever they are renewed. Never called where claims do not expire.
        """
        ...

    def time_commits(self, told: Callable[[float], None]) -> None:
        """Call `told` with the seconds that each commit took, on the thread that commits."""
        ...

    async def backup(self, target: Path) -> None:
        """Copy the whole store, consistently, while others write, into a new file or an empty one."""
        ...

    def finish(self, timeout: float = 5.0) -> bool:
        """Write what is queued, and accept no more. False if that took too long."""
        ...

    def close(self, timeout: float = 5.0) -> bool:
        """Like `finish`, and give up all claims."""
        ...
