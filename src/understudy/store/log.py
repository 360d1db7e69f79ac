"""What the rest asks of a store of conversations: append with an epoch, read, list. SQLite answers it; a server database could.

No process holds an idle conversation. Whoever runs a turn holds its claim, which ends with its process or is lost, and an epoch
that every append must match, so that a process that was overtaken cannot write.
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
    """What goes on in a conversation now: a turn, and commands that outlive their turns."""

    turn: str | None = None
    commands: tuple[RunningCommand, ...] = ()

    def __bool__(self) -> bool:
        return self.turn is not None or bool(self.commands)

    def shown(self) -> dict[str, Any]:
        """As `running` in results and lists."""
        commands = [command.shown() for command in self.commands]
        return {"commands": commands} if self.turn is None else {"turn": self.turn, "commands": commands}


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a list shows of a conversation. Derived from its log, and stored beside it so that listing reads no log."""

    title: str
    status: Status
    message_count: int
    cwd: str
    model: str
    pending: tuple[str, ...] = ()  # call ids of open questions
    tokens: int | None = None  # of all answers; None: not known
    cost_usd: float | None = None  # None: not known, or in part
    running: tuple[RunningCommand, ...] = ()  # commands; those of a process that has died do not run any more
    turn: str | None = None  # that has begun and not ended; that of a process that has died does not run any more
    thread_source: str | None = None  # what the program that began it calls itself

    def spent(self) -> dict[str, int | float]:
        """Tokens and cost, as lists show them; what is not known is left out."""
        spent: dict[str, int | float] = {} if self.tokens is None else {"tokens": self.tokens}
        return spent if self.cost_usd is None else {**spent, "cost_usd": round(self.cost_usd, 6)}


LATEST = 253_402_300_799.0  # the last second that a date can tell


class Listed(msgspec.Struct, frozen=True):
    """One row of a list."""

    conversation_id: ConversationId
    created_at: float
    updated_at: float
    summary: Summary
    archived: bool = False
    owner: str = LOCAL_NAME
    digest: bytes = b""  # of the last record, which covers all before it
    last_seq: int = 0  # of that record: up to it the summary tells


class Page(msgspec.Struct, frozen=True):
    rows: tuple[Listed, ...]
    next_cursor: str | None


class Position(msgspec.Struct, frozen=True):
    """Where a conversation's log stands, and whether letters wait in its inbox. Of one that is not there: `NOWHERE`."""

    epoch: int
    last_seq: int
    letters: bool = False
    as_of: int = 0  # the log's own mark of when this was true; whoever passes a position back to the log keeps it


NOWHERE = Position(0, 0)


class Holder(msgspec.Struct, frozen=True):
    """Whoever has the claim on a conversation, as far as the log can tell."""

    process: int | None = None  # on this machine: elsewhere its number means nothing
    since: float | None = None
    host: str | None = None  # another one than ours


class SavedText(msgspec.Struct, frozen=True):
    """What has been said of items that are not finished, as it is kept beside the log. `after` is the last record before them."""

    after: int
    text: str = ""
    reasoning: str = ""
    raw_reasoning: str = ""
    outputs: tuple[tuple[str, str, bytes], ...] = ()  # call id, stream, the end of what was printed

    @classmethod
    def of(cls, pieces: Sequence["SavedText"]) -> "SavedText":
        """Those that were saved one after the other, as one."""
        return cls(
            max(piece.after for piece in pieces),
            "".join([piece.text for piece in pieces]),
            "".join([piece.reasoning for piece in pieces]),
            "".join([piece.raw_reasoning for piece in pieces]),
            next((piece.outputs for piece in reversed(pieces) if piece.outputs), ()),
        )


class Batch(msgspec.Struct, frozen=True):
    """Entries to append together. The first batch of a claim says so (`claims`): a log of one machine raises the epoch with it,
    others have done so with the claim. The first of all makes the conversation.
    """

    conversation_id: ConversationId
    epoch: int
    previous_seq: int
    entries: tuple[Entry, ...]
    summary: Summary
    claims: bool = False
    creates: bool = False
    clears_text: bool = False
    releases: bool = False  # the claim is given back with it, in one step: whoever sees these entries can have it
    takes_letters: int = 0  # letters up to this number have been accepted with this batch
    beside: ConversationId | None = None  # on the host of that one, with the same workspace: a copy of it
    made_at: float | None = None  # when the conversation was made, where its first record is older: a copy keeps their times
    encoded: tuple[bytes, ...] = ()  # the entries' records, where whoever made the batch has encoded them already


class Letter(msgspec.Struct, frozen=True):
    """An op for a conversation whose turn another process runs."""

    number: int
    op: Op


Committed = Callable[[BaseException | None], None]
Listener = Callable[[], None]


class CanBeLost:
    """The part of a claim that tells of its loss. Nearly all are kept: the event is made when somebody asks for it."""

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
        """Where the conversation stood when the claim was taken, read in the same step. What is written under the claim has the
        epoch after that one.
        """
        ...

    @property
    def lost(self) -> asyncio.Event:
        """Set on the event loop when the claim could not be kept: stop at once, others may have the conversation."""
        ...

    is_lost: bool
    on_lost: Listener | None
    """The same for those who must not spend a task on waiting for it: called when the event is set."""

    def release(self) -> None:
        """Give it back. Does not wait, and may be called again."""
        ...


class EventLog(Protocol):
    """Where the records of all conversations are written and read: each conversation has a log of its own in it.

    What writes is queued and reports by a callback on the event loop. What reads is asynchronous, because the log may be remote;
    a log on the local disk answers without suspending.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes may write to it too."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a question and its answer take the time of a network. Then a claim is given back with the last append
        (`Batch.releases`), which costs no question of its own, and closing may wait for others.
        """
        ...

    def time(self) -> float:
        """That of a record which is made now: a clock that was set back, perhaps by mistake, is not believed at once."""
        ...

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch. `done` is called once it is durable, or with the reason why it is not: `Fenced`, another `StoreError`.

        A log that is away is waited for, but not for ever: then the reason is `Unavailable`, which says whether it may be written
        all the same.
        """
        ...

    def save_text(
        self, conversation_id: ConversationId, epoch: int, said: SavedText, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        """Keep what has been said so far, unless a later epoch has begun or the conversation is gone.

        With `adds`, its texts go on after those that were saved before; outputs are whole.
        """
        ...

    def post(self, conversation_id: ConversationId, op: Op, done: Committed | None = None) -> None:
        """Leave an op for the process that runs the conversation's turn."""
        ...

    def archive(self, conversation_id: ConversationId, archived: bool, done: Committed) -> None:
        """Take it out of the list, or put it back."""
        ...

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        """Forget the conversation. The caller holds its claim."""
        ...

    async def claim(self, conversation_id: ConversationId, known: Position | None = None) -> Claim | Holder:
        """Take the conversation for a turn, or learn who has it. It need not exist yet.

        `known` is where the caller knows it to stand, with no letters waiting, and the `as_of` of its last claim: a log that can
        tell that nobody has changed anything since then need not read. `NOWHERE`: it is new, and nobody else can know of it.
        """
        ...

    async def holder(self, conversation_id: ConversationId, *, identify: bool = False) -> Holder | None:
        """Who else has it. With `identify`, also which process, where that can be found out; that may be slow."""
        ...

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        """Those of many, in one look. What is not there is missing."""
        ...

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        """The entries after a record, in order: at most so many, and no more once their records have so many bytes."""
        ...

    async def saved_text(self, conversation_id: ConversationId) -> SavedText | None: ...

    async def letters(self, conversation_id: ConversationId) -> Sequence[Letter]:
        """What lies in the inbox, in the order of arrival."""
        ...

    async def find(self, conversation_id: ConversationId) -> Listed | None: ...

    async def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page: ...

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        """Be told on the event loop when another process may have changed the conversation or given up its claim.

        Only a hint: it may come late, twice, without reason or not at all, so the caller looks after a second anyway. Returns what
        ends it.
        """
        ...


NO_CONVERSATION = ConversationId("00000000-0000-0000-0000-000000000000")  # what is written belongs to none


class Spent(msgspec.Struct, frozen=True):
    """What somebody has used."""

    tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0

    def plus(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost_usd + other.cost_usd, self.requests + other.requests)


class Verified(msgspec.Struct, frozen=True):
    """What reading everything found."""

    records: int  # those looked at
    total: int
    problems: tuple[str, ...]  # each names its conversation; at most so many
    damaged: int  # conversations


BrokenKind = Literal["changed", "missing", "inserted", "moved", "cut", "head", "seal", "owner", "unreadable"]


class Broken(msgspec.Struct, frozen=True):
    """The first link that does not hold."""

    seq: int
    kind: BrokenKind
    text: str


class Audited(msgspec.Struct, frozen=True):
    """What following the chain of one conversation found."""

    conversation_id: str
    records: int  # up to where it was read
    head: str  # the last digest that holds, in hexadecimal digits
    sealed: int  # the record up to which the seal covers it; 0 without a good seal
    older: int  # records from before there were digests: theirs are of the time when the store was brought to its present form
    uncovered: int  # records that could not be read then, and have none
    head_at: int | None = None  # the record that has the digest that was asked for
    broken: Broken | None = None


class Store(EventLog, Protocol):
    """An event log of which this process has the whole: opened by `open_store`, looked after, and closed."""

    @property
    def place(self) -> str:
        """Where conversations are kept, for people."""
        ...

    @property
    def search(self) -> "Search":
        """Finds what was said and run in them."""
        ...

    async def ids(self, beginning: str = "", limit: int | None = None) -> Sequence[ConversationId]:
        """Those of all conversations that begin so, in order."""
        ...

    def spend(self, name: str, day: str, spent: Spent, done: Committed) -> None:
        """Count what this caller has used on that day (`2026-11-19`)."""
        ...

    async def spent(self, name: str, since: str) -> Spent:
        """From that day on, by all processes."""
        ...

    async def count(self) -> int: ...

    async def size(self) -> int:
        """In bytes."""
        ...

    async def check(self) -> str:
        """The database's own check: `ok`, or what is damaged."""
        ...

    async def verify(self, most: int | None) -> Verified:
        """Read every record of the newest conversations, until so many have been read."""
        ...

    async def audit(self, conversation_id: ConversationId, head: str | None = None) -> Audited | None:
        """Follow its chain of digests to the end, and to the record with the digest `head`. None for one that is not there."""
        ...

    async def without_entry(self) -> int:
        """How many conversations have records and stand in no list."""
        ...

    def seal(self, conversation_id: ConversationId, last_seq: int, digest: bytes, done: Committed) -> None:
        """Seal it as it is. The caller holds its claim."""
        ...

    async def oldest(self, limit: int, after: tuple[float, str], *, archived: bool) -> Sequence[Listed]:
        """Those that were not used for the longest time, from the one after this time and id on."""
        ...

    async def used(self) -> int:
        """Bytes that conversations take, without the room that deleted ones have left."""
        ...

    async def shrink(self) -> int:
        """Give back the room that deleted conversations have left: so many bytes. Others can write meanwhile."""
        ...

    def when_renewed(self, told: Callable[[float], None]) -> None:
        """Tell, on the event loop, up to which time (of the clock that always goes on) what is claimed here is surely claimed, and
        again whenever that is put off. Never told where claims do not end by themselves.
        """
        ...

    def time_commits(self, told: Callable[[float], None]) -> None:
        """Tell how many seconds each commit took; on whatever thread commits."""
        ...

    async def backup(self, target: Path) -> None:
        """A whole, consistent copy, while others write, into a new file or an empty one."""
        ...

    def finish(self, timeout: float = 5.0) -> bool:
        """Write what is queued, and take no more. False when that took too long."""
        ...

    def close(self, timeout: float = 5.0) -> bool:
        """The same, and give up all claims."""
        ...
