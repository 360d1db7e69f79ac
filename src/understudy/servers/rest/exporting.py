"""`…/export`: the whole log as `understudy export` writes it, or the conversation for reading, in Markdown."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from understudy.errors import UnknownConversation
from understudy.policy.quoting import quote_command
from understudy.policy.visible import make_visible, strip_terminal_escapes
from understudy.protocol.changes import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.protocol.items import Message
from understudy.protocol.records import (
    ApprovalDecided,
    CommandEnded,
    CommandStarted,
    Entry,
    ItemReceived,
    PatchStarted,
    PlanUpdated,
    TurnEnded,
    UserMessage,
)
from understudy.servers.rest.times import rfc3339
from understudy.servers.rest.visits import RestAnswer, Visit
from understudy.store.log import Listed
from understudy.store.transfer import export_lines

PAGE = 500
_TICKS = re.compile("`+")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ExportWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    form: Annotated[
        Literal["json", "markdown"],
        msgspec.Meta(description="json: every record, in lines that `understudy import` reads; markdown: for people"),
    ] = msgspec.field(default="json", name="format")


async def export(visit: Visit, wanted: ExportWanted) -> RestAnswer:
    handle = await visit.find()
    listed = await visit.engine.listed(handle.id)
    if listed is None:
        raise UnknownConversation("deleted meanwhile")
    entries: list[Entry] = []
    while page := await handle.read(entries[-1].seq if entries else 0, PAGE):
        entries += page
        await asyncio.sleep(0)  # others are served in between
    if wanted.form == "json":
        body = await asyncio.to_thread(lambda: b"".join(export_lines(listed, entries)))
        kind, name = b"application/x-ndjson", f"{handle.id}.jsonl"
    else:
        body = await asyncio.to_thread(lambda: "".join(markdown_lines(listed, entries)).encode(errors="replace"))
        kind, name = b"text/markdown; charset=utf-8", f"{handle.id}.md"
    given = (b"content-disposition", f'attachment; filename="{name}"'.encode())
    return RestAnswer(body, headers=((b"content-type", kind), given))


def markdown_lines(listed: Listed, entries: Sequence[Entry]) -> Iterator[str]:
    summary = listed.summary
    yield f"# {make_visible(' '.join(summary.title.split())) or 'A conversation'}\n\n"
    yield f"- id: {listed.conversation_id}\n- folder: `{make_visible(summary.cwd)}`\n- model: {make_visible(summary.model)}\n"
    yield f"- from {rfc3339(listed.created_at)} to {rfc3339(listed.updated_at)}\n"
    for entry in entries:
        for block in _blocks(entry):
            yield f"\n{block}\n"


def _blocks(entry: Entry) -> Iterator[str]:
    match entry.record:
        case UserMessage(message=message):
            yield "## User"
            yield _plain(message.text())
        case ItemReceived(item=Message() as message) if message.text().strip():
            yield "## Agent"
            yield _plain(message.text())
        case CommandStarted(command=command):
            yield _fenced(f"$ {_plain(quote_command(command))}", "sh")
        case CommandEnded(stdout=stdout, stderr=stderr, exit_code=code):
            yield _fenced(_plain(stdout + stderr), "") + (f"\n\nexit code {code}" if code else "")
        case PatchStarted(changes=changes):
            for path, change in changes.items():
                yield f"**{make_visible(path)}**"
                yield _fenced(_diff(change), "diff")
        case PlanUpdated(plan=plan):
            yield "\n".join(f"- [{'x' if step.status == 'completed' else ' '}] {make_visible(step.step)}" for step in plan)
        case ApprovalDecided(effective=True, decision=decision, by=by) as decided:
            place = make_visible(decided.from_afar()).replace("`", "'")
            yield f"*{decision} by {make_visible(by)}*" + (f" `{place}`" if place else "")
        case TurnEnded(reason=reason, message=message, unfinished=unfinished) if reason != "completed":
            if unfinished:
                yield _plain(unfinished)
            yield f"*the turn was {reason}{f': {make_visible(message)}' if message else ''}*"
        case _:
            return


def _plain(text: str) -> str:
    """Without what would steer a terminal."""
    return _CONTROL.sub("\ufffd", strip_terminal_escapes(text))


def _fenced(text: str, language: str) -> str:
    """Closed by what it shows never: a fence that is longer than any in the text."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _diff(change: FileChange) -> str:
    match change:
        case AddFile(content=content):
            return "\n".join(f"+{line}" for line in _plain(content).splitlines())
        case DeleteFile(content=content):
            return "\n".join(f"-{line}" for line in _plain(content).splitlines())
        case UpdateFile(unified_diff=diff):
            return _plain(diff)
