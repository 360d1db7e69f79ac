"""Exports and imports a conversation as one file of JSON lines: a header, then every entry of the log, in order.

Reading checks that the entries form a log that can be stored and shown. The caller writes them into a store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from understudy import __version__
from understudy.errors import BadRequest
from understudy.protocol.callers import LOCAL_NAME
from understudy.protocol.ids import ConversationId, read_uuid
from understudy.protocol.records import (
    ApprovalDecided,
    CommandApprovalAsked,
    Entry,
    Opened,
    Overrides,
    PatchEnded,
    Record,
    ToolApprovalAsked,
    TurnQueued,
    UserMessage,
    WorkspaceMoved,
)
from understudy.store.log import LATEST, Listed

FORMAT = 1

_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode


class Header(msgspec.Struct, frozen=True):
    """The first line. `understudy_export` is the version of the format; it also identifies such a file."""

    understudy_export: int
    conversation_id: str
    records: int
    written_by: str
    archived: bool = False


class ExportLine(NamedTuple):
    """A line that is not blank, with its number in the file."""

    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Imported:
    """A conversation read from a file, not yet in a store."""

    conversation_id: ConversationId
    entries: tuple[Entry, ...]
    archived: bool = False
    notes: tuple[str, ...] = ()  # tell the user what was left out
    unread: tuple[int, ...] = ()  # numbers of lines that could not be read


def export_lines(listed: Listed, entries: Sequence[Entry]) -> Iterator[bytes]:
    header = Header(FORMAT, listed.conversation_id, len(entries), f"understudy {__version__}", listed.archived)
    yield _encode(header) + b"\n"
    for entry in entries:
        yield _encode(entry) + b"\n"


def is_export(first_line: bytes) -> bool:
    return _header(first_line) is not None


def read_export(lines: Sequence[ExportLine]) -> Imported:
    """Raises `BadRequest` that names the line."""
    header = _header(lines[0].data)
    assert header is not None
    if header.understudy_export != FORMAT:
        raise BadRequest(
            f"the file has version {header.understudy_export} of the export format, and this understudy reads {FORMAT}"
        )
    try:
        conversation_id = ConversationId(read_uuid(header.conversation_id))
    except ValueError as error:
        raise BadRequest(f"line {lines[0].number}: conversation_id: {error}") from None
    entries = tuple(_read_entries(lines[1:], conversation_id))
    if not entries:
        raise BadRequest(f"the file is not whole: it should have {header.records} records and has 0")
    if len(entries) != header.records:
        raise BadRequest(f"the file is not whole: it should have {header.records} records and has {len(entries)}")
    return Imported(conversation_id, entries, header.archived)


def _header(line: bytes) -> Header | None:
    try:
        return msgspec.json.decode(line, type=Header)
    except (ValueError, RecursionError):  # msgspec's own errors, and bad UTF-8
        return None


def _read_entries(lines: Iterable[ExportLine], conversation_id: ConversationId) -> Iterator[Entry]:
    for expected, (number, line) in enumerate(lines, start=1):
        try:
            entry = _decode_entry(line)
            _encode(entry)  # fails for numbers that are too large to be written again
        except (ValueError, OverflowError, RecursionError, TypeError) as error:
            raise BadRequest(f"line {number}: {_reason(line, error)}") from None
        if entry.seq != expected or not min(expected - 1, 1) <= entry.parent < entry.seq:
            raise BadRequest(f"line {number}: records must be numbered from 1 without gaps, each after its parent")
        if not 0 <= entry.at <= LATEST:
            raise BadRequest(f"line {number}: `at` is not a time: seconds since 1970")
        if isinstance(entry.record, Opened) != (expected == 1):
            first = "the record `opened`, with which every conversation begins"
            raise BadRequest(f"line {number}: expected {first if expected == 1 else 'a record other than `opened`'}")
        yield _with_record(entry, _renamed(entry.record, conversation_id))


def _reason(line: bytes, error: Exception) -> str:
    try:
        line.decode()
    except UnicodeDecodeError as bad:
        return f"not UTF-8 (byte {bad.start + 1})"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def with_id(imported: Imported, conversation_id: ConversationId) -> Imported:
    """The same conversation under another id."""
    entries = tuple(_with_record(entry, _renamed(entry.record, conversation_id)) for entry in imported.entries)
    return replace(imported, conversation_id=conversation_id, entries=entries)


def without_permissions(imported: Imported) -> Imported:
    """Without what another person's file must not decide: how and where commands are confined, what is approved already, and what
    an undo writes.
    """
    unpinned = tuple(_with_record(entry, _unpinned(entry.record)) for entry in imported.entries)
    entries = tuple(_with_record(entry, _without_undo(entry.record)) for entry in unpinned)
    notes = imported.notes
    if entries != unpinned:
        notes += ("what its patches replaced was left out: they cannot be undone here",)
    plain = tuple(_with_record(entry, _harmless(entry.record)) for entry in entries)
    if plain != entries:
        notes += ("its sandbox, approval policy, profile, config keys and session approvals were left out; yours hold",)
    return replace(imported, entries=plain, notes=notes)


def in_folder(imported: Imported, cwd: str) -> Imported:
    """The same conversation, in another folder from its first record on."""

    def moved(record: Record) -> Record:
        if isinstance(record, Opened):
            return msgspec.structs.replace(record, overrides=_in_folder(record.overrides, cwd), pins=None)
        return _with_message(record, staying)

    def staying(message: UserMessage) -> UserMessage:
        if message.overrides is None:
            return message
        return msgspec.structs.replace(message, overrides=msgspec.structs.replace(message.overrides, cwd=None), pins=None)

    return replace(imported, entries=tuple(_with_record(entry, moved(entry.record)) for entry in imported.entries))


def _in_folder(overrides: Overrides, cwd: str) -> Overrides:
    return msgspec.structs.replace(overrides, cwd=cwd, workspace=None)


def _with_message(record: Record, change: Callable[[UserMessage], UserMessage]) -> Record:
    """Change the message in any kind of record: an accepted message, or one queued for a turn of its own."""
    match record:
        case UserMessage():
            return change(record)
        case TurnQueued(message=message):
            changed = change(message)
            return record if changed is message else TurnQueued(changed)
        case _:
            return record


def _renamed(record: Record, conversation_id: str) -> Record:
    """With the new id. It belongs to the local user, who imports it."""
    changed = isinstance(record, Opened)
    return msgspec.structs.replace(record, conversation_id=conversation_id, owner=LOCAL_NAME) if changed else record


def _unpinned(record: Record) -> Record:
    """Without pins: they identify folders of another machine, and are made again on this one."""
    if isinstance(record, Opened):
        return msgspec.structs.replace(record, pins=None)
    if isinstance(record, WorkspaceMoved):
        return msgspec.structs.replace(record, pins=None)
    return _with_message(record, lambda message: msgspec.structs.replace(message, pins=None))


def _without_undo(record: Record) -> Record:
    """An undo writes old content from the log, even where the patch needed an approval; a forged log could contain both."""
    if isinstance(record, PatchEnded) and (record.files or record.folders):
        return msgspec.structs.replace(record, files=None, folders=())
    return record


def _harmless(record: Record) -> Record:
    match record:
        case Opened(overrides=overrides):
            return msgspec.structs.replace(record, overrides=_plain(overrides))
        case ApprovalDecided(key=str()) | CommandApprovalAsked(key=str()) | ToolApprovalAsked(key=str()):
            return msgspec.structs.replace(record, key=None)
        case _:
            return _with_message(record, _harmless_message)


def _harmless_message(message: UserMessage) -> UserMessage:
    if message.terms is not None and message.terms.until:
        message = msgspec.structs.replace(message, terms=msgspec.structs.replace(message.terms, until=""))
    if message.overrides is None:
        return message
    return msgspec.structs.replace(message, overrides=_plain(message.overrides))


def _plain(overrides: Overrides) -> Overrides:
    """Without the workspace, which would say what to clone where, and which commands to run in it."""
    return msgspec.structs.replace(overrides, approval_policy=None, sandbox=None, config=None, profile=None, workspace=None)


def _with_record(entry: Entry, record: Record) -> Entry:
    return entry if record is entry.record else msgspec.structs.replace(entry, record=record)
