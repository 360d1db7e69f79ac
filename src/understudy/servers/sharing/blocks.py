"""What a file for people shows of a conversation: who said what, what was run and printed, what was changed, who decided.

Texts are unchanged from the log. Reasoning is left out: not every reader may see it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import Activity
from understudy.policy.question_text import question_text
from understudy.protocol import records as r
from understudy.protocol.items import InputImage, Message
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import quote_command


class Said(msgspec.Struct, frozen=True):
    who: str
    text: str
    images: tuple[str, ...] = ()  # their addresses


class Ran(msgspec.Struct, frozen=True):
    """A command or a call of a tool, with its outcome."""

    line: str
    output: str
    outcome: str  # empty if it succeeded
    is_command: bool = True


class Changed(msgspec.Struct, frozen=True):
    path: str
    diff: str
    what: str = ""  # set if it is more than an update


class Planned(msgspec.Struct, frozen=True):
    steps: tuple[tuple[str, bool], ...]  # each with whether it is done


class Noted(msgspec.Struct, frozen=True):
    text: str


Block = Said | Ran | Changed | Planned | Noted


def blocks_of(entries: Sequence[r.Entry], cwd: str) -> Iterator[Block]:
    activity = Activity()
    running: dict[int, a.Command] = {}
    for entry in entries:
        for step in activity.entry(entry):
            match step:
                case a.Began(item=a.Command(running=True) as item) | a.Resumed(item=a.Command() as item):
                    running[id(item)] = item
                case a.Ended(item=a.Command() as item):
                    running.pop(id(item), None)
                case _:
                    pass
            yield from _blocks(step, cwd)
    for item in running.values():
        yield Ran(quote_command(item.argv), "", "it is still running")


def title_of(path: Sequence[r.Entry]) -> str:
    """The last title it was given, or else the whole first message."""
    title = ""
    for entry in path:
        match entry.record:
            case r.Renamed(title=given):
                title = given
            case r.UserMessage(message=message) if not title:
                title = message.text()
            case _:
                pass
    return title.strip() or "A conversation"


def _blocks(step: a.Step, cwd: str) -> Iterator[Block]:
    match step:
        case a.Accepted(message=message):
            yield _said("User", message.message)
        case a.Ended() as ended:
            yield from _ended(ended)
        case a.Asked(question=question):
            yield Noted(question_text(question, cwd))
        case a.Decided(record=record, words=words):
            yield Noted(words or _decision(record))
        case a.Answered(call=call, output=output, success=False):
            yield Ran(f"{call.name} {call.arguments}", output, "it was refused", is_command=False)
        case a.Told(record=r.PlanUpdated(plan=plan)):
            yield Planned(tuple((each.step, each.status == "completed") for each in plan))
        case a.Told(record=r.TurnEnded(reason=reason, message=message)) if reason != "completed":
            yield Noted(f"the turn was {reason}{f': {message}' if message else ''}")
        case a.Told(words=words, repeats=False) if words:
            yield Noted(words)
        case _:
            return


def _said(who: str, message: Message) -> Said:
    images = tuple(part.image_url for part in message.content if isinstance(part, InputImage))
    return Said(who, message.text(), images)


def _decision(decided: r.ApprovalDecided) -> str:
    place = decided.from_afar()
    word = f": {decided.word}" if decided.word else ""
    return f"{decided.decision} by {decided.by}{f' ({place})' if place else ''}{word}"


def _ended(ended: a.Ended) -> Iterator[Block]:
    match ended.item:
        case a.Text() if ended.text.strip():
            yield Said("Agent", ended.text)
        case a.Command(argv=argv):
            yield _command(quote_command(argv), ended)
        case a.Patch(changes=changes):
            for path, change in changes.items():
                yield _changed(path, change)
            if ended.how != "done" or not ended.success:
                record = ended.record
                why = f"{record.stdout}{record.stderr}" if isinstance(record, r.PatchEnded) else ended.text
                yield Noted(f"the patch was not applied: {why}" if why else f"the patch was {ended.how}")
        case a.ToolCall(server=server, tool=tool, arguments=arguments):
            given = msgspec.json.encode(arguments or {}).decode()
            told = ended.record.describe() if isinstance(ended.record, r.ToolCallEnded) else ended.text
            outcome = "" if ended.success and ended.how == "done" else _how(ended.how)
            yield Ran(f"{tool if server == r.OWN_SERVER else f'{server}: {tool}'} {given}", told, outcome, is_command=False)
        case _:
            return


def _command(line: str, ended: a.Ended) -> Ran:
    record = ended.record
    if not isinstance(record, r.CommandEnded):
        return Ran(line, ended.text, _how(ended.how))
    outcome = f"exit code {record.exit_code}" if record.exit_code else ""
    if record.timed_out:
        outcome = "time limit reached"
    return Ran(line, record.stdout + record.stderr, outcome)


def _how(how: str) -> str:
    return {"refused": "it was refused", "cut": "it was cut off", "unfinished": "its end is not known"}.get(how, "it failed")


def _changed(path: str, change: FileChange) -> Changed:
    match change:
        case AddFile(content=content):
            return Changed(path, _each_line("+", content), "added")
        case DeleteFile(content=content):
            return Changed(path, _each_line("-", content), "deleted")
        case UpdateFile(unified_diff=diff, move_path=moved):
            return Changed(path, diff, f"moved to {moved}" if moved else "")


def _each_line(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.removesuffix("\n").split("\n")) if text else ""
