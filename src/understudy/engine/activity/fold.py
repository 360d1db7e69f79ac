"""Turns a conversation's records and deltas into steps of its items. No I/O, no clock, no wire."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from understudy.engine.activity.steps import (
    Accepted,
    Answered,
    Asked,
    Began,
    BudgetQuestion,
    Command,
    Compaction,
    Decided,
    Ended,
    Grew,
    Image,
    LeftRunning,
    Patch,
    Read,
    Resumed,
    Step,
    Text,
    Thought,
    Told,
    ToolCall,
    UserQuestion,
    argv_of,
)
from understudy.engine.turn.approvals import CLIENT, decided_notice
from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall, Message, Reasoning

Begun = r.CommandStarted | r.PatchStarted | r.ToolCallBegan


class Activity:
    """The items of one conversation for one front end, from the conversation's beginning or from the middle."""

    def __init__(
        self,
        *,
        begun: Iterable[Begun] = (),
        called: Iterable[FunctionCall] = (),
        questions: Iterable[r.Question] = (),
        one_turn: bool = False,
    ) -> None:
        """`begun`: work already running; its beginning is told right before its end. `called` and `questions`: calls that have not
        begun and may be refused. `one_turn`: the watcher leaves after one turn, so commands that outlive it are cut off with it.
        """
        self._missed = {record.call_id: record for record in begun}
        self._calls = {call.call_id: call for call in called}  # calls without an item so far
        self._open: dict[str, Command | Patch | ToolCall | Image | BudgetQuestion | UserQuestion] = {}  # by call id
        self._outlived: dict[int, Command] = {}  # sessions whose call id was used again
        self._one_turn = one_turn
        self._waiting: dict[str, r.UserMessage] = {}  # accepted, not yet read by the model
        self._text: Text | None = None
        self._thought: Thought | None = None
        self._compaction: Compaction | None = None
        self._decided = ""
        self._kept_back: set[str] = set()  # calls that a hook has held back
        for question in questions:
            self._open[question.call_id] = asked_about(question)

    def unfinished(self) -> "Text | None":
        """The message that is being written."""
        return self._text

    # -- records

    def entry(self, entry: r.Entry) -> list[Step]:
        match entry.record:
            case r.ItemReceived() as received:
                return self._received(received)
            case r.UserMessage() as message:
                self._waiting[message.message_id] = message
                return [Accepted(message)]
            case r.RequestSent() as sent:
                read = [self._waiting.pop(name) for name in sent.consumed if name in self._waiting]
                return [*(Read(message) for message in read), Told(sent)]
            case r.ToolAnswered() as answered:
                return [*self._answered(answered), Told(answered)]
            case r.CommandStarted() | r.PatchStarted() | r.ToolCallBegan() as begun:
                return [self._start(_work_of(begun))]
            case r.CommandEnded() | r.PatchEnded() | r.ToolCallEnded() as ended:
                return self._end(ended)
            case r.ImageViewed() as viewed:
                began = self._start(Image(call_id=viewed.call_id, path=viewed.path))
                del self._open[viewed.call_id]
                return [began, Ended(item=began.item, how="done"), Told(viewed, viewed.describe(), foreign=True, repeats=True)]
            case (
                r.CommandApprovalAsked()
                | r.PatchApprovalAsked()
                | r.ToolApprovalAsked()
                | r.BudgetAsked()
                | r.HookApprovalAsked()
                | r.UserInputAsked()
            ) as question:
                return self._asked(question)
            case r.ApprovalDecided() as decided:
                return self._decide(decided)
            case r.CompactionStarted() as started:
                self._compaction = Compaction(seq=entry.seq)
                return [Began(self._compaction), Told(started)]
            case r.Compacted() as compacted:
                item, self._compaction = self._compaction or Compaction(seq=entry.seq, missed=True), None
                told = Told(compacted, compacted.describe(), repeats=True)
                return [Ended(item=item, how="done", record=compacted), told]
            case r.TurnEnded() as ended:
                return [*self._cut_off(ended), Told(ended)]
            case r.Noticed() as noticed:
                if noticed.withdraws and self._text is not None:
                    self._text.said.clear()
                return [Told(noticed, noticed.message, repeats=noticed.message == self._decided)]
            case r.RetryScheduled() | r.ServersChecked() | r.AnswerRejected() as record:
                return [Told(record, record.describe())]
            case r.HookRan() as ran:
                if ran.call_id and (ran.status == "blocked" or ran.asks):
                    self._kept_back.add(ran.call_id)
                return [Told(ran, ran.describe(), foreign=True)]
            case r.PromptBlocked() as blocked:
                self._waiting.pop(blocked.message_id, None)
                return [Told(blocked, blocked.describe(), foreign=True)]
            case r.InputWritten() | r.Renamed() | r.UndoEnded() | r.TurnQueued() | r.TurnDropped() as record:
                return [Told(record, record.describe(), foreign=True)]
            case r.WorkspaceSaved() | r.WorkspaceMoved() as record:
                return [Told(record, record.describe(), foreign=True)]
            case r.WorkspaceSaveStarted() as record:
                return [Told(record)]
            case r.Opened() | r.TurnStarted() | r.TokensCounted() | r.PlanUpdated() | r.DiffChanged() | r.UndoStarted() as record:
                return [Told(record)]

    # -- deltas

    def delta(self, delta: r.Delta) -> list[Step]:
        match delta:
            case r.TextDelta(text=text):
                steps: list[Step] = []
                if self._text is None:
                    self._text = Text()
                    steps.append(Began(self._text))
                self._text.said.append(text)
                return [*steps, Grew(self._text, text)]
            case r.ReasoningDelta(text=text, raw=raw):
                if self._thought is not None:
                    return [Grew(self._thought, text, raw)]
                self._thought = Thought()
                return [Began(self._thought), Grew(self._thought, text, raw)]
            case r.OutputDelta() as output:
                item = self._open.get(output.call_id)
                return [Grew(item, item.output.feed(output))] if isinstance(item, Command) else []

    # -- what the model says

    def _received(self, received: r.ItemReceived) -> list[Step]:
        match received.item:
            case Message() as message:
                text, self._text = self._text, None
                phase = message.phase or None  # never an empty string; `UNSET` is false
                return [Ended(item=text or Text(missed=True), how="done", text=message.text(), phase=phase)]
            case Reasoning() as reasoning:
                thought, self._thought = self._thought, None
                summary = tuple([part.text for part in reasoning.summary if part.text])
                raw = tuple([part.text for part in reasoning.content or () if part.text]) if received.show_raw else ()
                return [Ended(item=thought or Thought(missed=True), how="done", summary=summary, raw=raw)]
            case FunctionCall() as call:
                self._calls[call.call_id] = call
                return []

    # -- what it does

    def _start(self, item: Command | Patch | ToolCall | Image) -> Began | Resumed:
        self._calls.pop(item.call_id, None)
        self._make_room(item.call_id)
        known = self._open.get(item.call_id)
        self._open[item.call_id] = item
        item.running = True
        if known is None:
            return Began(item)
        item.name, item.declined = known.name, known.declined
        return Resumed(item)

    def _make_room(self, call_id: str) -> None:
        """Free the id of a call: the model has used it again while the call's command still runs."""
        known = self._open.get(call_id)
        if isinstance(known, Command) and known.running and known.session is not None:
            self._outlived[known.session] = known
            del self._open[call_id]

    def _end(self, ended: r.CommandEnded | r.PatchEnded | r.ToolCallEnded) -> list[Step]:
        steps: list[Step] = []
        begun = self._missed.pop(ended.call_id, None)
        if isinstance(ended, r.CommandEnded) and (started := ended.started) is not None:
            if (outlived := self._outlived.pop(started.session or 0, None)) is not None:
                return [Ended(item=outlived, how="done", record=ended, success=_succeeded(ended))]
            begun = begun or started
        if ended.call_id not in self._open and begun is not None:
            steps.append(self._start(_work_of(begun)))
        self._calls.pop(ended.call_id, None)
        item = self._open.pop(ended.call_id, None) or _work_of_end(ended)
        return [*steps, Ended(item=item, how="done", record=ended, success=_succeeded(ended))]

    def _answered(self, answered: r.ToolAnswered) -> list[Step]:
        call_id, output = answered.output.call_id, answered.output.output
        call = self._calls.pop(call_id, None)
        item = self._open.get(call_id)
        kept_back = call_id in self._kept_back
        self._kept_back.discard(call_id)
        if item is None and call is not None and kept_back and not answered.success and not _has_item_of_its_own(call):
            refused = ToolCall(call_id=call_id, server=r.OWN_SERVER, tool=call.name, arguments=_arguments_of(call), running=True)
            return [Began(refused), Ended(item=refused, how="refused", text=output, success=False, call=call)]
        if item is None:
            return [] if call is None else [Answered(call, output, answered.success)]
        if isinstance(item, Command) and item.running:
            return [LeftRunning(item)]
        del self._open[call_id]
        how = "unfinished" if item.running else "refused"
        return [Ended(item=item, how=how, text=output, success=answered.success, call=call)]

    # -- questions

    def _asked(self, question: r.Question) -> list[Step]:
        """Begin the item that the question is about, unless it has begun already."""
        steps: list[Step] = []
        self._make_room(question.call_id)
        if question.call_id not in self._open:
            self._open[question.call_id] = item = asked_about(question)
            steps.append(Began(item))
            if isinstance(item, UserQuestion):
                self._calls.pop(item.call_id, None)
        return [*steps, Asked(question)]

    def _decide(self, decided: r.ApprovalDecided) -> list[Step]:
        if not decided.effective:
            return [Told(decided)]
        item = self._open.get(decided.call_id)
        words = self._decided = _words_of(decided, is_input=isinstance(item, UserQuestion))
        if item is not None:
            item.declined = decided.source == CLIENT and decided.decision in ("denied", "abort")
        steps: list[Step] = [Decided(decided, words)]
        if isinstance(item, BudgetQuestion | UserQuestion):
            del self._open[decided.call_id]
            approved = decided.decision in ("approved", "approved_for_session")
            steps.append(Ended(item=item, how="done", success=approved))
        return steps

    # -- the end of a turn

    def _cut_off(self, ended: r.TurnEnded) -> list[Step]:
        """Cut off every open item except commands that outlive their turn."""
        steps: list[Step] = []
        if self._thought is not None:
            steps.append(Ended(item=self._thought, how="cut"))
        if self._text is not None or ended.unfinished:
            text = self._text or Text(missed=True)
            steps.append(Ended(item=text, how="cut", text=ended.unfinished or "".join(text.said)))
        if self._compaction is not None:
            steps.append(Ended(item=self._compaction, how="cut"))
        self._text = self._thought = self._compaction = None
        for call_id, item in tuple(self._open.items()):
            if self._one_turn or not (isinstance(item, Command) and item.running and item.session is not None):
                del self._open[call_id]
                steps.append(Ended(item=item, how="cut"))
        if self._one_turn:
            steps += [Ended(item=item, how="cut") for item in self._outlived.values()]
            self._outlived.clear()
        self._calls.clear()
        return steps


def _has_item_of_its_own(call: FunctionCall) -> bool:
    """Whether front ends show the refused call as a command or a patch."""
    return call.name == "apply_patch" or argv_of(call) is not None


def _arguments_of(call: FunctionCall) -> dict[str, Any] | None:
    try:
        given: Any = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast(dict[str, Any], given) if isinstance(given, dict) else None


def _work_of(begun: Begun) -> Command | Patch | ToolCall:
    match begun:
        case r.CommandStarted(call_id=call_id, command=argv, cwd=cwd, session=session, contained=contained):
            return Command(call_id=call_id, argv=argv, cwd=cwd, session=session, contained=contained)
        case r.PatchStarted(call_id=call_id, changes=changes):
            return Patch(call_id=call_id, changes=changes)
        case r.ToolCallBegan() as call:
            return _tool_call(call, read_only=call.read_only)


def _work_of_end(ended: r.CommandEnded | r.PatchEnded | r.ToolCallEnded) -> Command | Patch | ToolCall:
    match ended:
        case r.CommandEnded(call_id=call_id):
            return Command(call_id=call_id, missed=True)
        case r.PatchEnded(call_id=call_id):
            return Patch(call_id=call_id, missed=True)
        case r.ToolCallEnded():
            return _tool_call(ended, read_only=ended.read_only, missed=True)


def _words_of(decided: r.ApprovalDecided, *, is_input: bool) -> str:
    return "" if decided.source == CLIENT else decided_notice(decided.decision, decided.source, is_input=is_input)


def asked_about(question: r.Question) -> Command | Patch | ToolCall | BudgetQuestion | UserQuestion:
    """The item that a question is about; it has not run yet."""
    match question:
        case r.CommandApprovalAsked(call_id=call_id, command=argv, cwd=cwd):
            return Command(call_id=call_id, argv=argv, cwd=cwd)
        case r.PatchApprovalAsked(call_id=call_id, changes=changes):
            return Patch(call_id=call_id, changes=changes)
        case r.ToolApprovalAsked():
            return _tool_call(question)
        case r.BudgetAsked(call_id=call_id):
            return BudgetQuestion(call_id=call_id)
        case r.HookApprovalAsked(call_id=call_id, tool=tool, shown=shown):
            return BudgetQuestion(call_id=call_id, about=f"{tool or 'message'}: {shown}")
        case r.UserInputAsked(call_id=call_id, questions=questions):
            return UserQuestion(call_id=call_id, questions=questions)


def _tool_call(
    call: r.ToolCallBegan | r.ToolCallEnded | r.ToolApprovalAsked, *, read_only: bool = False, missed: bool = False
) -> ToolCall:
    return ToolCall(
        call_id=call.call_id,
        server=call.server,
        tool=call.tool,
        arguments=call.arguments,
        read_only=read_only,
        missed=missed,
    )


def _succeeded(ended: r.CommandEnded | r.PatchEnded | r.ToolCallEnded) -> bool:
    match ended:
        case r.CommandEnded(exit_code=code):
            return code == 0
        case r.PatchEnded(success=success):
            return success
        case r.ToolCallEnded(failed=failed):
            return not failed
