"""`understudy show`: a conversation for reading, or its events for programs."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

from rich.text import Text

from understudy.cli.stored import find, find_meant, going_on_in, open_stored, rfc3339, settle_words, status_of
from understudy.cli.tell.record_teller import RecordTeller
from understudy.cli.tell.telling import DIFF_LINES, HEAD_LINES, Teller
from understudy.cli.tell.terminal import one_line, open_console, spent_line
from understudy.cli.tell.viewing import event_lines
from understudy.cli.waiting import wait_for
from understudy.engine.log.facts import path_to
from understudy.protocol.records import Entry
from understudy.store.log import Listed, RunningCommand, SavedText, Status

EVERY_LINE = 1_000_000_000


def run(options: Namespace) -> int:
    settle_words(options, "show")
    listed, status, entries, saved, running = wait_for(lambda: _read(options))
    if options.json:
        for line in _all_lines(entries):
            sys.stdout.buffer.write(line)
        return 0
    _print(listed, status, entries, running, unfinished=saved.text if saved and status != "idle" else "", full=options.full)
    return 0


Found = tuple[Listed, Status, Sequence[Entry], SavedText | None, Sequence[RunningCommand]]


async def _read(options: Namespace) -> Found:
    async with open_stored() as log:
        listed = await find(log, await find_meant(log, options))
        entries = await log.read(listed.conversation_id)
        running = (await going_on_in(log, listed)).commands
        return listed, await status_of(log, listed), entries, await log.saved_text(listed.conversation_id), running


def _all_lines(entries: Sequence[Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield from event_lines(entry)


def _print(
    listed: Listed,
    status: Status,
    entries: Sequence[Entry],
    running: Sequence[RunningCommand],
    *,
    unfinished: str,
    full: bool,
) -> None:
    console = open_console()
    summary = listed.summary
    path = path_to(entries)
    console.print(Text(one_line(summary.title), "bold"))
    used = spent_line(summary)
    begun_by = f"begun by {summary.thread_source}" if summary.thread_source else ""
    facts = [listed.conversation_id, status, rfc3339(listed.created_at), summary.model, summary.cwd, used, begun_by]
    console.print(Text("  ".join(one_line(fact) for fact in facts if fact), "dim"))
    console.print()
    head, diff = (EVERY_LINE, EVERY_LINE) if full else (HEAD_LINES, DIFF_LINES)
    teller = Teller(console, cwd=summary.cwd, head_lines=head, diff_lines=diff)
    records = RecordTeller(teller, summary.cwd)
    for entry in path:
        records.tell(entry.record)
    if unfinished:
        teller.message_delta(unfinished)
    for command in running:
        teller.notice(f"running in session {command.session_id}: {one_line(command.command)}")
    teller.close()
    if len(path) < len(entries):
        other = len(entries) - len(path)
        teller.aside(f"{other} records on other paths, from messages that were continued elsewhere, are in `show --json`.")
