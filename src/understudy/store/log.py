"""What the rest asks of a store of conversations: append with an epoch, read, list. SQLite answers it; a server database could.

An idle conversation has no owner. Whoever runs a turn holds its claim: a lock that the kernel drops when the process
dies, and an epoch that every append must match, so that a process that was overtaken cannot write.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, UserMessage

Status = Literal["running", "waiting", "idle"]


class Summary(msgspec.Struct, frozen=True):
    """What a list shows of a conversation. Derived from its log, and stored beside it so that listing reads no log."""

    title: str
    status: Status
    message_count: int
    cwd: str
    model: str
    pending: tuple[str, ...] = ()  # call ids of open questions


LATEST = 253_402_300_799.0  # the last second that a date can tell


class Listed(msgspec.Struct, frozen=True):
    """One row of a list."""

    conversation_id: ConversationId
    created_at: float
    updated_at: float
    summary: Summary
    archived: bool = False


class Page(msgspec.Struct, frozen=True):
    rows: tuple[Listed, ...]
    next_cursor: str | None


class Position(msgspec.Struct, frozen=True):
    """Where a conversation's log stands, and whether letters wait in its box."""

    epoch: int
    last_seq: int
    letters: bool = False


class Partial(msgspec.Struct, frozen=True):
    """What has been said of an item that is not finished. `after` is the last record before it."""

    after: int
    text: str = ""
    reasoning: str = ""
    raw_reasoning: str = ""
    outputs: tuple[tuple[str, str, bytes], ...] = ()  # call id, stream, the end of what was printed

    @classmethod
    def of(cls, pieces: Sequence["Partial"]) -> "Partial":
        """Those that were saved one after the other, as one."""
        return cls(
            max(piece.after for piece in pieces),
            "".join([piece.text for piece in pieces]),
            "".join([piece.reasoning for piece in pieces]),
            "".join([piece.raw_reasoning for piece in pieces]),
            next((piece.outputs for piece in reversed(pieces) if piece.outputs), ()),
        )


class Batch(msgspec.Struct, frozen=True):
    """Entries to append together. The first batch of a claim raises the epoch; the first of all makes the conversation."""

    conversation_id: ConversationId
    epoch: int
    previous_seq: int
    entries: tuple[Entry, ...]
    summary: Summary
    claims: bool = False
    creates: bool = False
    clears_partial: bool = False
    takes_letters: int = 0  # letters up to this number have been accepted with this batch
    encoded: tuple[bytes, ...] = ()  # the entries' records, where whoever made the batch has encoded them already


class Letter(msgspec.Struct, frozen=True):
    """An op for a conversation whose turn another process runs."""

    number: int
    op: "LetterOp"


class SendLetter(msgspec.Struct, frozen=True, tag="send"):
    message: UserMessage


class InterruptLetter(msgspec.Struct, frozen=True, tag="interrupt"):
    turn: str = ""  # the one that is meant, where it is known: a letter may come after its end


class DecideLetter(msgspec.Struct, frozen=True, tag="decide"):
    call_id: str
    decision: Literal["approved", "approved_for_session", "denied", "abort"]
    source: str
    turn: str = ""


LetterOp = SendLetter | InterruptLetter | DecideLetter

Committed = Callable[[BaseException | None], None]


class Claim(Protocol):
    """The right to append to one conversation."""

    def release(self) -> None: ...


class EventLog(Protocol):
    @property
    def shared(self) -> bool:
        """Whether other processes may write to it too."""
        ...

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch. `done` is called on the event loop once it is on disk, or with the reason why it is not."""
        ...

    def claim(self, conversation_id: ConversationId) -> Claim | None:
        """Take the conversation for a turn. `None`: another process has it."""
        ...

    def is_claimed(self, conversation_id: ConversationId) -> bool: ...

    def holder(self, conversation_id: ConversationId) -> int | None:
        """The id of the other process that has it, where that can be found out. Slow."""
        ...

    def position(self, conversation_id: ConversationId) -> Position | None: ...

    def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        """Those of many, in one look."""
        ...

    def read(self, conversation_id: ConversationId, after: int = 0, limit: int | None = None) -> Sequence[Entry]: ...

    def partial(self, conversation_id: ConversationId) -> Partial | None: ...

    def save_partial(
        self, conversation_id: ConversationId, epoch: int, said: Partial, done: Committed | None = None, *, adds: bool = False
    ) -> None:
        """Keep what has been said so far, unless a later epoch has begun or the conversation is gone.

        With `adds`, its texts go on after those that were saved before; outputs are whole.
        """
        ...

    def post(self, conversation_id: ConversationId, op: LetterOp, done: Committed | None = None) -> None:
        """Leave an op for the process that runs the conversation's turn."""
        ...

    def letters(self, conversation_id: ConversationId) -> Sequence[Letter]: ...

    def delete(self, conversation_id: ConversationId, done: Committed) -> None:
        """Forget the conversation. The caller holds its claim."""
        ...

    def list(self, limit: int, cursor: str | None = None, *, archived: bool = False) -> Page: ...

    def changes(self) -> bytes:
        """The same as before only if no other process has written meanwhile. Costs next to nothing."""
        ...
