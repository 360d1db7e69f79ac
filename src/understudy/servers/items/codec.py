"""Turns steps of an `Activity` into updates of items, and into lines of JSON for streams over HTTP."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import Activity
from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol import records as r
from understudy.protocol.choices import Decision
from understudy.protocol.items import FunctionCall
from understudy.protocol.records import Entry
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.items import shapes as s
from understudy.servers.items.shapes import Update
from understudy.servers.report import report_of
from understudy.servers.rest.events import seconds_to_answer, shown_question

MOST_TURNS = 8  # for which more may come: commands outlive their turns
_SETTLED: dict[str, s.Status] = {"done": "done", "refused": "declined", "unfinished": "failed", "cut": "cut"}
_ENDS: dict[str, s.Status] = {"completed": "done", "failed": "failed", "interrupted": "cut"}
_APPROVING: tuple[Decision, ...] = ("approved", "approved_for_session")


class ItemCodec:
    """For one viewer of a conversation, who is shown its entries in order."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._cwd = handle.facts.cwd
        self._activity = Activity()
        self._turn = ""
        self._counts: dict[str, Counter[str]] = {}  # items so far, by turn and kind
        self._asked: dict[str, s.Question] = {}

    def note(self, entry: r.Entry) -> None:
        """Process an entry without showing it."""
        self.updates(LiveEntry(entry))

    def updates(self, live: LiveEntry) -> list[s.Update]:
        entry = live.entry
        self._begin_turn(entry.turn)
        told = [item for step in self._activity.entry(entry) for item in self._tell(step, entry)]
        return [s.Update(seq=entry.seq, item=item) for item in told]

    def note_given(self, turn: str, text: int, thought: int) -> None:
        """The viewer already has this much of an unfinished message and thought."""
        for length, delta in ((text, r.TextDelta("")), (thought, r.ReasoningDelta(""))):
            if length:
                self.growth(LiveDelta(delta, turn, 0))

    def growth(self, live: LiveDelta) -> s.Update | None:
        """None if it belongs to no item that is known here."""
        if not isinstance(live.delta, r.OutputDelta):
            self._begin_turn(live.turn)
        steps = self._activity.delta(live.delta)
        begun = next((self._began(step.item) for step in steps if isinstance(step, a.Began)), None)
        grew = next((step for step in steps if isinstance(step, a.Grew)), None)
        if grew is None:
            return None
        if isinstance(begun, s.Message | s.Thought):
            return s.Update(seq=live.after, item=type(begun)(id=begun.id, turn=begun.turn, status="running", text=grew.text))
        return s.Update(seq=live.after, grew=s.Growth(id=self._of(grew.item).id, text=grew.text))

    def _begin_turn(self, turn: str) -> None:
        self._turn = turn
        if turn not in self._counts:
            self._counts = dict(list(self._counts.items())[-MOST_TURNS:]) | {turn: Counter()}

    # -- steps

    def _tell(self, step: a.Step, entry: r.Entry) -> list[s.AnyItem]:
        match step:
            case a.Began(item=item) | a.Resumed(item=item):
                return self._seen(item)
            case a.Ended():
                return self._ended(step)
            case a.Asked(question=question):
                return [self._question(question, entry)]
            case a.Decided(record=record, words=words):
                return self._decided(record, words)
            case a.Accepted(message=message):
                return [self._user_message(message, "running")]
            case a.Read(message=message):
                return [self._user_message(message, "done")]
            case a.Answered(call=call, output=output, success=success):
                return [] if success else [self._never_began(call, output)]
            case a.Told():
                return self._told(step, entry)
            case a.Grew() | a.LeftRunning():
                return []

    def _told(self, told: a.Told, entry: r.Entry) -> list[s.AnyItem]:
        match told.record:
            case r.PlanUpdated(plan=plan, explanation=explanation):
                steps = tuple(s.PlanStep(step=each.step, status=each.status) for each in plan)
                return [s.Plan(id=self._next("plan"), turn=self._turn, status="done", steps=steps, explanation=explanation or "")]
            case r.TurnEnded() as ended:
                return [self._turn_end(ended, entry.turn)]
            case r.Noticed(withdraws=True) if (text := self._activity.unfinished()) is not None:
                return [self._of(text), self._notice(told.words)]  # the text so far is void: the model begins its answer again
            case _ if told.words and not told.repeats:
                return [self._notice(told.words)]
            case _:
                return []

    def _notice(self, words: str) -> s.Notice:
        return s.Notice(id=self._next("notice"), turn=self._turn, status="done", text=words)

    def _turn_end(self, ended: r.TurnEnded, turn: str) -> s.TurnEnd:
        work = self._handle.work_of(turn)
        report = {} if work is None else report_of(work, "full")
        return s.TurnEnd(id=f"{turn}-end", turn=turn, status=_ENDS[ended.reason], text=ended.message or "", report=report)

    def _user_message(self, message: r.UserMessage, status: s.Status) -> s.UserMessage:
        text = message.message.text()
        return s.UserMessage(id=message.message_id, turn=self._turn, status=status, text=text, message_id=message.message_id)

    # -- items

    def _next(self, kind: str) -> str:
        """An id that is the same for every viewer, since it counts from the beginning of the turn."""
        counts = self._counts[self._turn]
        counts[kind] += 1
        return f"{self._turn}-{kind}-{counts[kind]}"

    def _of(self, item: a.Shown) -> s.AnyItem:
        return self._began(item) if item.name is None else item.name

    def _seen(self, item: a.Shown) -> list[s.AnyItem]:
        """Nothing for an item that is only asked about: its question represents it."""
        told = self._began(item)
        return [] if isinstance(item, a.Work) and not item.running and not isinstance(item, a.Image) else [told]

    def _began(self, item: a.Shown) -> s.AnyItem:
        known: s.AnyItem | None = item.name
        item.name = self._made(item, known.id if known is not None else None)
        return item.name

    def _made(self, item: a.Shown, known: str | None) -> s.AnyItem:
        common: dict[str, Any] = {"turn": self._turn, "status": "running"}
        match item:
            case a.Text():
                return s.Message(id=known or self._next("message"), **common)
            case a.Thought():
                return s.Thought(id=known or self._next("thought"), **common)
            case a.Compaction():
                return s.Compaction(id=known or self._next("compaction"), **common)
            case a.Command(argv=argv, cwd=cwd, session=session, contained=contained):
                facts: dict[str, Any] = {"argv": argv, "folder": cwd, "session": session, "outside": contained is False}
                return s.Command(id=known or self._next("command"), **facts, **common)
            case a.Patch(changes=changes):
                files = tuple(_changed(path, change) for path, change in changes.items())
                return s.Patch(id=known or self._next("patch"), files=files, **common)
            case a.ToolCall(server=server, tool=tool, arguments=arguments):
                call = known or self._next("tool")
                return s.ToolCall(id=call, server=server, tool=tool, arguments=arguments or {}, **common)
            case a.Image(path=path):
                return s.Image(id=known or self._next("image"), path=path, **common)
            case a.BudgetQuestion() | a.UserQuestion():
                return s.Notice(id=known or self._next("notice"), text="", **common)

    def _ended(self, ended: a.Ended) -> list[s.AnyItem]:
        item = ended.item
        if isinstance(item, a.BudgetQuestion | a.UserQuestion):
            return []
        told = self._of(item)
        status: s.Status = _SETTLED[ended.how] if ended.success or ended.how != "done" else "failed"
        same: dict[str, Any] = {"id": told.id, "turn": told.turn, "status": status}
        match told:
            case s.Message():
                return [s.Message(text=ended.text, **same)]
            case s.Thought():
                text = "\n".join((*ended.summary, *ended.raw))
                return [s.Thought(text=text, **same)] if text else []
            case s.Compaction():
                text = ended.record.describe() if isinstance(ended.record, r.Compacted) else ""
                return [s.Compaction(text=text, **same)]
            case s.Command() if isinstance(item, a.Command):
                return [_command_end(told, item, ended, same)]
            case s.Patch(files=files):
                why = f"{ended.record.stdout}{ended.record.stderr}" if isinstance(ended.record, r.PatchEnded) else ended.text
                return [s.Patch(files=files, error="" if status == "done" else why, **same)]
            case s.ToolCall(server=server, tool=tool, arguments=arguments):
                result = ended.record.result if isinstance(ended.record, r.ToolCallEnded) else None
                error = (ended.record.error or "") if isinstance(ended.record, r.ToolCallEnded) else ended.text
                return [s.ToolCall(server=server, tool=tool, arguments=arguments, result=result, error=error, **same)]
            case s.Image(path=path):
                return [s.Image(path=path, **same)]
            case _:
                return []

    def _never_began(self, call: FunctionCall, output: str) -> s.AnyItem:
        """A call that was refused or could not be understood."""
        same: dict[str, Any] = {"turn": self._turn, "status": "declined", "error": output}
        if (argv := a.argv_of(call)) is not None:
            return s.Command(id=self._next("command"), argv=argv, folder=self._cwd, **same)
        if call.name == "apply_patch":
            words: dict[str, Any] = {"Add": "add", "Update": "update", "Delete": "delete"}
            files = tuple(s.ChangedFile(path=path, change=words[word]) for word, path in a.files_of(call))
            return s.Patch(id=self._next("patch"), files=files, **same)
        return s.ToolCall(id=self._next("tool"), server=r.OWN_SERVER, tool=call.name, arguments=_arguments(call), **same)

    # -- questions

    def _question(self, question: r.Question, entry: r.Entry) -> s.Question:
        shown = shown_question(question, entry.turn, entry.at, self._cwd, seconds_to_answer(self._handle))
        item = s.Question(id=self._next("question"), turn=self._turn, status="running", asked=shown)
        self._asked[question.call_id] = item
        return item

    def _decided(self, decided: r.ApprovalDecided, words: str) -> list[s.AnyItem]:
        item = self._asked.pop(decided.call_id, None)
        if item is None:
            return []
        status: s.Status = "done" if decided.decision in _APPROVING else "declined"
        by = "" if words else decided.by
        told = s.Question(
            id=item.id, turn=item.turn, status=status, asked=item.asked, decision=decided.decision, by=by, words=words
        )
        return [told]


def _command_end(told: s.Command, item: a.Command, ended: a.Ended, same: dict[str, Any]) -> s.Command:
    facts: dict[str, Any] = {"argv": told.argv, "folder": told.folder, "session": told.session, "outside": told.outside}
    record = ended.record
    if not isinstance(record, r.CommandEnded):
        return s.Command(output=item.output.so_far(), error=ended.text, **facts, **same)
    output = item.output.whole(record)
    return s.Command(output=output, exit_code=record.exit_code, seconds=round(record.duration, 3), **facts, **same)


def _changed(path: str, change: FileChange) -> s.ChangedFile:
    match change:
        case AddFile(content=content):
            return s.ChangedFile(path=path, change="add", diff=content)
        case DeleteFile(content=content):
            return s.ChangedFile(path=path, change="delete", diff=content)
        case UpdateFile(unified_diff=diff, move_path=moved):
            return s.ChangedFile(path=path, change="update", moved_to=moved, diff=diff)


def _arguments(call: FunctionCall) -> dict[str, Any]:
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {"input": call.arguments}
    return cast(dict[str, Any], given) if isinstance(given, dict) else {"input": call.arguments}


_encode = msgspec.json.Encoder().encode


class ItemLines:
    """A `StreamCodec` of items."""

    def __init__(self, handle: Handle) -> None:
        self.codec = ItemCodec(handle)

    def note(self, entry: Entry) -> None:
        self.codec.note(entry)

    def note_given(self, turn: str, given: Mapping[str, int]) -> None:
        self.codec.note_given(turn, given.get("t", 0), max(given.get("r", 0), given.get("w", 0)))

    def lines(self, live: LiveEntry) -> tuple[bytes, ...]:
        return tuple(_encode(update) for update in self.codec.updates(live))

    def delta(self, live: LiveDelta) -> bytes:
        update = self.codec.growth(live)
        return b"" if update is None else _encode(update)

    def aside(self, line: bytes) -> bytes:
        return b""

    def failed(self, reason: str) -> bytes:
        return _encode(Update(seq=0, ended=reason))
