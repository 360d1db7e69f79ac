"""A conversation as one file of JSON lines: a header that says what it is, then every entry of the log, in order.

Reading checks that the entries make a log. Writing them into a store is left to the caller.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from understudy import __version__
from understudy.errors import BadRequest
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import ApprovalDecided, Entry, Opened, Overrides, Record, UserMessage
from understudy.protocol.uuids import read_uuid
from understudy.store.log import Listed

FORMAT = 1

_encode = msgspec.json.Encoder().encode
_decode_entry = msgspec.json.Decoder(Entry).decode


class Header(msgspec.Struct, frozen=True):
    """The first line. `understudy_export` is the version of the format, and the mark by which a file is known."""

    understudy_export: int
    conversation_id: str
    records: int
    written_by: str
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Imported:
    """A conversation that was read from a file, not yet in a store."""

    conversation_id: ConversationId
    entries: tuple[Entry, ...]
    archived: bool = False
    notes: tuple[str, ...] = ()  # what a person should know of what was left out


def export_lines(listed: Listed, entries: Sequence[Entry]) -> Iterator[bytes]:
    header = Header(FORMAT, listed.conversation_id, len(entries), f"understudy {__version__}", listed.archived)
    yield _encode(header) + b"\n"
    for entry in entries:
        yield _encode(entry) + b"\n"


def is_export(first_line: bytes) -> bool:
    try:
        msgspec.json.decode(first_line, type=Header)
    except msgspec.MsgspecError:
        return False
    return True


def read_export(lines: Sequence[bytes]) -> Imported:
    """Raises `BadRequest` that names the line."""
    header = msgspec.json.decode(lines[0], type=Header)
    if header.understudy_export != FORMAT:
        raise BadRequest(
            f"the file has version {header.understudy_export} of the export format, and this understudy reads {FORMAT}"
        )
    entries = tuple(_read_entries(lines[1:]))
    if len(entries) != header.records:
        raise BadRequest(f"the file is not whole: it should have {header.records} records and has {len(entries)}")
    try:
        conversation_id = ConversationId(read_uuid(header.conversation_id))
    except ValueError as error:
        raise BadRequest(f"line 1: conversation_id: {error}") from None
    if not entries or not isinstance(entries[0].record, Opened):
        raise BadRequest("line 2: expected the record `opened`, with which every conversation begins")
    return Imported(conversation_id, entries, header.archived)


def _read_entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    expected = 1
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            entry = _decode_entry(line)
        except msgspec.MsgspecError as error:
            raise BadRequest(f"line {number}: {error}") from None
        if entry.seq != expected or not 0 <= entry.parent < entry.seq:
            raise BadRequest(f"line {number}: records must be numbered from 1 without gaps, each after its parent")
        expected += 1
        yield entry


def with_id(imported: Imported, conversation_id: ConversationId) -> Imported:
    """The same under another id."""
    entries = tuple(_with_record(entry, _renamed(entry.record, conversation_id)) for entry in imported.entries)
    return Imported(conversation_id, entries, imported.archived, imported.notes)


def without_permissions(imported: Imported) -> Imported:
    """Without what a file from somewhere else must not decide: how commands are confined, and what is approved already."""
    entries = tuple(_with_record(entry, _harmless(entry.record)) for entry in imported.entries)
    note = ("its sandbox, approval policy, profile, config keys and session approvals were left out; yours hold",)
    return Imported(
        imported.conversation_id, entries, imported.archived, imported.notes + (note if entries != imported.entries else ())
    )


def in_folder(imported: Imported, cwd: str) -> Imported:
    """The same, belonging to another folder from its first record on."""
    entries: list[Entry] = []
    for entry in imported.entries:
        match entry.record:
            case Opened() as opened:
                entries.append(_with_record(entry, msgspec.structs.replace(opened, overrides=_moved(opened.overrides, cwd))))
            case UserMessage(overrides=Overrides() as overrides) as message:
                entries.append(_with_record(entry, msgspec.structs.replace(message, overrides=_moved(overrides, None))))
            case _:
                entries.append(entry)
    return Imported(imported.conversation_id, tuple(entries), imported.archived, imported.notes)


def _moved(overrides: Overrides, cwd: str | None) -> Overrides:
    return msgspec.structs.replace(overrides, cwd=cwd)


def _renamed(record: Record, conversation_id: str) -> Record:
    return msgspec.structs.replace(record, conversation_id=conversation_id) if isinstance(record, Opened) else record


def _harmless(record: Record) -> Record:
    match record:
        case Opened(overrides=overrides):
            return msgspec.structs.replace(record, overrides=_plain(overrides))
        case UserMessage(overrides=Overrides() as overrides):
            return msgspec.structs.replace(record, overrides=_plain(overrides))
        case ApprovalDecided(key=str()):
            return msgspec.structs.replace(record, key=None)
        case _:
            return record


def _plain(overrides: Overrides) -> Overrides:
    return msgspec.structs.replace(overrides, approval_policy=None, sandbox=None, config=None, profile=None)


def _with_record(entry: Entry, record: Record) -> Entry:
    return entry if record is entry.record else msgspec.structs.replace(entry, record=record)
