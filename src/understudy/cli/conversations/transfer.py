"""`understudy export` and `understudy import`."""

import io
import json
import os
import sys
import uuid
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from understudy.cli.conversations.output_file import is_stdout, new_file
from understudy.cli.stored import find, find_meant, open_stored, settle_words, write
from understudy.cli.waiting import wait_for
from understudy.engine.log.facts import path_to
from understudy.engine.log.fold import State
from understudy.errors import BadRequest
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry
from understudy.store.log import Batch, Listed, Store
from understudy.store.rollout import is_rollout, read_rollout
from understudy.store.transfer import (
    ExportLine,
    Imported,
    export_lines,
    in_folder,
    is_export,
    read_export,
    with_id,
    without_permissions,
)
from understudy.text import strip_terminal_escapes

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
STDIO = "-"
MOST_UNPACKED = 512 * 2**20


def run(options: Namespace) -> int:
    return _export(options) if options.action == "export" else _import(options)


# -- out


def _export(options: Namespace) -> int:
    settle_words(options, "export")
    listed, entries = wait_for(lambda: _read_stored(options))
    lines = export_lines(listed, entries) if options.format == "json" else _for_people(options.format, listed, entries)
    if is_stdout(options.output):
        if sys.stdout.isatty():
            raise BadRequest("an export is not for a terminal: give it a file with -o FILE, or a pipe")
        sys.stdout.buffer.writelines(lines)
        return 0
    target = Path(options.output)
    with new_file(target, may_replace=options.force) as part, open(part, "wb") as file:
        file.writelines(lines)
    print(f"{len(entries)} records of {listed.conversation_id} are in {target}", file=sys.stderr)
    return 0


def _for_people(form: str, listed: Listed, entries: Sequence[Entry]) -> Iterator[bytes]:
    from understudy.servers.sharing.writing import text_lines  # only here

    for line in text_lines(form, listed, entries, os.environ):
        yield line.encode(errors="replace")


async def _read_stored(options: Namespace) -> tuple[Listed, Sequence[Entry]]:
    async with open_stored() as log:
        listed = await find(log, await find_meant(log, options))
        return listed, await log.read(listed.conversation_id, limit=listed.last_seq)  # no further than the row's digest


# -- in


def _import(options: Namespace) -> int:
    """Each file by itself: an invalid one does not affect the others."""
    failed = False
    for name in options.files:
        try:
            _import_file(name, options)
        except BadRequest as error:
            failed = True
            print(f"understudy: {strip_terminal_escapes(str(error))}", file=sys.stderr)
    return 1 if failed else 0


def _import_file(name: str, options: Namespace) -> None:
    imported = read_conversation(_read(name), name)
    if not options.keep_settings:
        imported = without_permissions(imported)
    if options.cwd is not None:
        imported = in_folder(imported, _folder(options.cwd))
    if options.new_id:
        imported = with_id(imported, ConversationId(str(uuid.uuid4())))
    state = State.of(path_to(imported.entries))
    wait_for(lambda: _store_new(imported, state))
    _report(imported, state, as_json=options.json, folder_chosen=options.cwd is not None)


def _folder(named: str) -> str:
    folder = os.path.abspath(named)
    try:
        folder.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"--cwd {named!r} is not UTF-8, and only such folders can be recorded") from None
    return folder


def read_conversation(data: bytes, name: str) -> Imported:
    """Recognizes the format by the content, not the file's name. Raises `BadRequest` that names the file."""
    if data.startswith(ZSTD):
        raise BadRequest(f"{name} is compressed: unpack it with `zstd -d` first")
    if data.startswith(GZIP):
        data = _unpack(data, name)
    rows = enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1)
    lines = [ExportLine(number, row) for number, row in rows if row.strip()]
    try:
        if lines and is_export(lines[0].data):
            return read_export(lines)
        if lines and is_rollout(lines[0].data):
            return read_rollout(lines)
    except BadRequest as error:
        raise BadRequest(f"{name}: {error}") from None
    raise BadRequest(f"{name} is neither an export of understudy nor a session file of codex")


def _unpack(data: bytes, name: str) -> bytes:
    import gzip

    try:
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadRequest(f"{name} cannot be unpacked: {error}") from None
    if len(unpacked) > MOST_UNPACKED:
        raise BadRequest(f"{name} unpacks to more than {MOST_UNPACKED // 2**20} MiB, and no conversation is that long")
    return unpacked


def _read(name: str) -> bytes:
    if name == STDIO:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {name}: {error.strerror}") from None


async def _store_new(imported: Imported, state: State) -> None:
    async with open_stored() as log:
        await _store(log, imported, state)


async def _store(log: Store, imported: Imported, state: State) -> None:
    if await log.find(imported.conversation_id) is not None:
        raise BadRequest(f"conversation {imported.conversation_id} is already here; --new-id imports it under another id")
    batch = Batch(imported.conversation_id, 1, 0, imported.entries, state.summary(), creates=True)
    await write(lambda done: log.append(batch, done))
    if imported.archived:
        await write(lambda done: log.archive(imported.conversation_id, True, done))


def _notes(imported: Imported) -> list[str]:
    if not imported.unread:
        return list(imported.notes)
    some = ", ".join(map(str, imported.unread[:10])) + (", …" if len(imported.unread) > 10 else "")
    lines = "line that cannot be read was" if len(imported.unread) == 1 else "lines that cannot be read were"
    return [*imported.notes, f"{len(imported.unread)} {lines} left out: {some}"]


def _report(imported: Imported, state: State, *, as_json: bool, folder_chosen: bool) -> None:
    """`folder_chosen`: by the user, rather than by the file, whose author may be anybody."""
    summary = state.summary()
    notes = _notes(imported)
    if as_json:
        told = {"conversation_id": imported.conversation_id, "title": summary.title, "message_count": summary.message_count}
        print(json.dumps({**told, "cwd": summary.cwd, "notes": notes}))
        return
    from understudy.cli.tell.terminal import one_line

    print(f"{imported.conversation_id}  {summary.message_count} messages: {one_line(summary.title)}")
    for note in notes:
        print(f"understudy: {one_line(note)}", file=sys.stderr)
    if not summary.cwd or not os.path.isdir(summary.cwd):
        gone = (
            f"its folder {one_line(summary.cwd)} is not here" if summary.cwd else "the file does not say which folder it belongs to"
        )
        print(f"understudy: {gone}; to continue it in another folder, import it with --cwd DIR", file=sys.stderr)
    elif not folder_chosen:
        print(f"understudy: it works in {one_line(summary.cwd)}, as the file says; --cwd DIR names another", file=sys.stderr)
