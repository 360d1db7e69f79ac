"""All kinds of writes, as calls of the functions in `schema`."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.numeric import Int4, Int8

from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Op
from understudy.protocol.records import Opened
from understudy.store.chain import FIRST, MOST_KNOWN, Seals, link
from understudy.store.log import Batch, SavedText, Spent
from understudy.store.sqlite.writing import PACKED_PIECE, PACKED_RECORD, packed

_encode = msgspec.json.Encoder().encode

Call = tuple[str, Sequence[Any]]
Head = tuple[bytes, bytes]  # the last digest, and its seal


def number_of(conversation_id: str) -> int:
    """63 bits of the UUID, the key of the rows."""
    return int(conversation_id.replace("-", "")[:16], 16) >> 1


class Heads:
    """The last digests of conversations that this process writes to. Each was read under the claim that uses it, or written since.

    After a head without a valid seal nothing more is sealed, because that would cover up a forgery.
    """

    def __init__(self, seals: Seals, look: Callable[[int], tuple[Any, ...] | None]) -> None:
        """`look` reads id, number of the last record, digest and seal of a conversation."""
        self._seals = seals
        self._look = look
        self._known: dict[int, tuple[int, int, bytes, bool]] = {}

    def find(self, number: int, epoch: int, last_seq: int) -> tuple[bytes, bool]:
        known = self._known.get(number)
        if known is not None and known[:2] == (epoch, last_seq):
            return known[2], known[3]
        found = self._look(number)
        if found is None:
            return FIRST, False
        name, last, digest, seal = found
        return digest, self._seals.holds(name, last, digest, seal)

    def read(self, name: str, epoch: int, last_seq: int, head: Head) -> None:
        self.note(number_of(name), epoch, last_seq, head[0], self._seals.holds(name, last_seq, *head))

    def note(self, number: int, epoch: int, last_seq: int, digest: bytes, is_sealed: bool) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[number] = epoch, last_seq, digest, is_sealed

    def make_seal(self, name: str, last_seq: int, digest: bytes) -> bytes:
        return self._seals.make(name, last_seq, digest)

    def forget(self) -> None:
        """Forget all: a write has failed."""
        self._known.clear()


def append(batch: Batch, worker: UUID, heads: Heads, *, keeps: bool, asked_for: bool = False) -> list[Call]:
    """`keeps`: a conversation that this creates stays claimed; `asked_for`: a front end waits for it."""
    number, first, last = number_of(batch.conversation_id), batch.entries[0], batch.entries[-1]
    digest, is_sealed = (FIRST, True) if batch.creates else heads.find(number, batch.epoch, batch.previous_seq)
    encoded = batch.encoded or [_encode(entry.record) for entry in batch.entries]
    digests: list[bytes] = []
    for entry, data in zip(batch.entries, encoded, strict=True):
        digest = link(digest, entry.seq, entry.parent, entry.turn, entry.at, data)
        digests.append(digest)
    heads.note(number, batch.epoch, last.seq, digest, is_sealed)
    seal = heads.make_seal(batch.conversation_id, last.seq, digest) if is_sealed else None
    summary = _encode(batch.summary)
    if batch.creates:
        owner = first.record.owner if isinstance(first.record, Opened) else LOCAL_NAME
        made_at = first.at if batch.made_at is None else batch.made_at
        place = Int8(number), batch.conversation_id, worker, Int4(batch.epoch), Int4(last.seq), float(made_at), float(last.at)
        what = (*place, summary, owner, digest, seal, keeps and not batch.releases)
        head: Call = "SELECT u_open(%s, %s, %s, %s, %s, %s, %s, %b, %s, %b, %b, %s)", what
    else:
        place = Int8(number), worker, Int4(batch.epoch), Int4(batch.previous_seq), Int4(last.seq), float(last.at)
        what = (*place, summary, digest, seal, batch.clears_text, Int8(batch.takes_letters), batch.releases)
        head = "SELECT u_append(%s, %s, %s, %s, %s, %s, %b, %b, %b::bytea, %s, %s, %s)", what
    columns = (
        [Int4(entry.seq) for entry in batch.entries],
        [Int4(entry.parent) for entry in batch.entries],
        [entry.turn for entry in batch.entries],
        [float(entry.at) for entry in batch.entries],
        [packed(data, PACKED_RECORD) for data in encoded],
        digests,
    )
    records = "SELECT u_records(%s, %s, %s, %s::text[], %s, %b, %b)", (Int8(number), *columns)
    return [head, records, *_settle(batch, number, asked_for=asked_for)] if batch.creates else [head, records]


def _settle(batch: Batch, number: int, *, asked_for: bool) -> list[Call]:
    beside = None if batch.beside is None else Int8(number_of(batch.beside))
    first = batch.entries[0].record
    workspace = first.overrides.workspace if isinstance(first, Opened) else None
    path, kind = (batch.summary.cwd or None, "folder") if workspace is None else (workspace.path, workspace.kind)
    settles: Call = "SELECT u_settle_in(%s, %s::text, %s, %s::bigint)", (Int8(number), path, kind, beside)
    return [("SELECT u_begun(%s)", (Int8(number),)), settles] if asked_for else [settles]


def said(conversation_id: ConversationId, epoch: int, saved: SavedText, *, adds: bool) -> list[Call]:
    """Silently dropped if the claim is lost or the conversation deleted."""
    printed = piece = None
    if saved.outputs:
        printed = packed(_encode(SavedText(saved.after, outputs=saved.outputs)), PACKED_PIECE)
    if saved.text or saved.reasoning or saved.raw_reasoning or not saved.outputs:
        piece = packed(_encode(SavedText(saved.after, saved.text, saved.reasoning, saved.raw_reasoning)), PACKED_PIECE)
    what = Int8(number_of(conversation_id)), Int4(epoch), adds, printed, piece
    return [("SELECT u_said(%s, %s, %s, %b::bytea, %b::bytea)", what)]


def letter(conversation_id: ConversationId, op: Op) -> list[Call]:
    return [("SELECT u_post(%s, %b)", (Int8(number_of(conversation_id)), _encode(op)))]


def archive(conversation_id: ConversationId, archived: bool) -> list[Call]:
    return [("SELECT u_archive(%s, %s)", (Int8(number_of(conversation_id)), archived))]


def seal(conversation_id: ConversationId, last_seq: int, digest: bytes, sealed: bytes) -> list[Call]:
    return [("SELECT u_seal(%s, %s, %b, %b)", (Int8(number_of(conversation_id)), Int4(last_seq), digest, sealed))]


def delete(conversation_id: ConversationId) -> list[Call]:
    return [("SELECT u_delete(%s)", (Int8(number_of(conversation_id)),))]


def spend(name: str, day: str, spent: Spent) -> list[Call]:
    what = name, day, Int8(spent.tokens), float(spent.cost_usd), Int8(spent.requests)
    return [("SELECT u_spend(%s, %s, %s, %s, %s)", what)]


def claim(conversation_id: ConversationId, worker: UUID) -> list[Call]:
    return [("SELECT * FROM u_claim_here(%s, %s, %s)", (Int8(number_of(conversation_id)), conversation_id, worker))]


def release(conversation_id: ConversationId, worker: UUID) -> list[Call]:
    return [("SELECT u_release(%s, %s)", (Int8(number_of(conversation_id)), worker))]
