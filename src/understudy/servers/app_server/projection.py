"""Records and deltas of one conversation as notifications of the app server: its turns, and its items from start to end.

It goes along the whole log of a conversation, so that ids are the same in every process and at every time. Who is told, and
in which order with answers, is the viewer's part.
"""

from understudy.engine.approvals import CLIENT
from understudy.engine.broadcast import LiveDelta
from understudy.protocol.items import FunctionCall, Message, Reasoning, Usage
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    Compacted,
    CompactionStarted,
    DiffChanged,
    Entry,
    ImageViewed,
    InputWritten,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    Overrides,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    Question,
    ReasoningDelta,
    Renamed,
    RequestSent,
    RetryScheduled,
    ServersChecked,
    TextDelta,
    TokensCounted,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnQueued,
    TurnStarted,
    UndoEnded,
    UserMessage,
)
from understudy.servers.app_server import items
from understudy.servers.app_server.item_ids import ItemIds, uuid_of
from understudy.servers.app_server.open_items import OpenItems
from understudy.servers.app_server.turn_shape import error_of, retry_error, turn_object
from understudy.servers.app_server.wire import Json, Notice
from understudy.servers.app_server.work_items import WorkItems

_PLAN_STATUS = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}


class Projection:
    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.turn_ids: dict[str, str] = {}  # by the number that the log has for a turn
        self.promised: set[str] = set()  # messages each of which a client was promised a turn for, of that id
        self.turn: str | None = None  # the number of the one that runs
        self.questions: dict[str, Question] = {}
        self.usage: Usage | None = None
        self.last_usage: Usage | None = None
        self.last_turn: str | None = None  # the id of the turn that was last counted for
        self.failed = False  # the last turn has
        self.name: str | None = None
        self._ids = ItemIds()
        self.items = OpenItems(thread_id)
        self.work = WorkItems(self._ids, self.items)
        self._waiting: dict[str, UserMessage] = {}  # accepted, not read by the model yet
        self._first: dict[str, str] = {}  # the message that begins a turn, by its number
        self._started_at = 0.0
        self._window: int | None = None
        self._last_message: Json | None = None
        self._text: str | None = None  # the id of the message that is being written
        self._said: list[str] = []
        self._thought: str | None = None
        self._compaction: str | None = None
        self._decided = ""

    # -- entries

    def entry(self, entry: Entry) -> list[Notice]:
        turn_id, at = self.turn_id(entry.turn), entry.at
        match entry.record:
            case ItemReceived(item=item, show_raw=show_raw):
                return self._item(item, show_raw, turn_id, at)
            case TokensCounted(usage=last, total=total):
                self.usage, self.last_usage, self.last_turn = total or last, last, turn_id
                return [self.token_usage(turn_id, last)]
            case UserMessage() as message:
                self._accept(message, entry.turn)
            case TurnStarted() as started:
                return self._begin_turn(started, at)
            case RequestSent(consumed=consumed):
                return [notice for message_id in consumed for notice in self._read(message_id, turn_id, at)]
            case TurnEnded() as ended:
                return self._end_turn(ended, entry.turn, at)
            case TurnQueued(message=message):
                self.promised.add(message.message_id)
            case Opened(overrides=overrides):
                self._choose(overrides)
            case _:
                return self._happened(entry, turn_id, at)
        return []

    def _happened(self, entry: Entry, turn_id: str, at: float) -> list[Notice]:
        """What happens within a turn, beside what the model says."""
        work = self.work
        match entry.record:
            case CommandStarted() as started:
                return work.command_started(started, turn_id, at)
            case CommandEnded() as ended:
                return work.command_ended(ended, turn_id, at)
            case PatchStarted() as started:
                return work.patch_started(started, turn_id, at)
            case PatchEnded() as ended:
                return work.patch_ended(ended, turn_id, at)
            case ToolCallBegan() as began:
                return work.tool_call_began(began, turn_id, at)
            case ToolCallEnded() as ended:
                return work.tool_call_ended(ended, turn_id, at)
            case ToolAnswered() as answered:
                return work.answered(answered, turn_id, at)
            case CommandApprovalAsked() | PatchApprovalAsked() | ToolApprovalAsked() | BudgetAsked() as question:
                return self._ask(question, turn_id, at)
            case ApprovalDecided(effective=True) as decided:
                return self._decide(decided)
            case ImageViewed(call_id=call_id, path=path):
                return self.items.complete(items.image_view(self._ids.call(call_id), path), turn_id, at)
            case InputWritten(call_id=call_id, session=session, text=text):
                told: Json = {"itemId": work.item_of(call_id), "processId": str(session), "stdin": text}
                return [self._of_turn("item/commandExecution/terminalInteraction", turn_id, **told)]
            case _:
                return self._told(entry, turn_id, at)

    def _told(self, entry: Entry, turn_id: str, at: float) -> list[Notice]:
        match entry.record:
            case PlanUpdated(plan=plan, explanation=explanation):
                steps = [{"step": step.step, "status": _PLAN_STATUS[step.status]} for step in plan]
                return [self._of_turn("turn/plan/updated", turn_id, explanation=explanation, plan=steps)]
            case DiffChanged(unified_diff=diff):
                return [self._of_turn("turn/diff/updated", turn_id, diff=items.relative_diff(diff, self.work.cwd))]
            case CompactionStarted():
                self._compaction = uuid_of(self.thread_id, "compaction", str(entry.seq))
                return self.items.begin(items.compaction(self._compaction), turn_id, at)
            case Compacted(total=total):
                self.usage = total or self.usage
                item_id, self._compaction = self._compaction or uuid_of(self.thread_id, "compaction", str(entry.seq)), None
                return self.items.complete(items.compaction(item_id), turn_id, at)
            case ServersChecked(ready=ready, missing=missing):
                return [self._server(name, "ready") for name in ready] + [
                    self._server(name, "failed", why) for name, why in missing.items()
                ]
            case Renamed(title=title):
                self.name = title
                return [("thread/name/updated", {"threadId": self.thread_id, "threadName": title})]
            case UndoEnded() as undone:
                return [self._warning(undone.describe())]
            case AnswerRejected(problem=problem):
                return [self._warning(f"the answer does not fit the output schema: {problem}; the model tries again")]
            case Noticed(message=message, withdraws=False) if message != self._decided and self.turn is not None:
                return [self._warning(message)]
            case RetryScheduled() as retry:
                where: Json = {"threadId": self.thread_id, "turnId": turn_id}
                return [("error", {"error": retry_error(retry), "willRetry": True, **where})]
            case _:
                return []

    # -- deltas

    def delta(self, live: LiveDelta, at: float) -> list[Notice]:
        turn_id = self.turn_id(live.turn)
        match live.delta:
            case TextDelta(text=text):
                notices: list[Notice] = []
                if self._text is None:
                    self._text, self._said = self._ids.message(), []
                    notices = self.items.begin(items.agent_message(self._text, ""), turn_id, at)
                self._said.append(text)
                return [*notices, self._of_turn("item/agentMessage/delta", turn_id, itemId=self._text, delta=text)]
            case ReasoningDelta(text=text, raw=raw):
                notices = []
                if self._thought is None:
                    self._thought = self._ids.reasoning()
                    notices = self.items.begin(items.reasoning(self._thought), turn_id, at)
                where: Json = {"contentIndex": 0} if raw else {"summaryIndex": 0}
                method = "item/reasoning/textDelta" if raw else "item/reasoning/summaryTextDelta"
                return [*notices, self._of_turn(method, turn_id, itemId=self._thought, delta=text, **where)]
            case OutputDelta() as output:
                item_id, text = self.work.output(output)
                told: Json = {"itemId": item_id, "delta": text}
                return [self._of_turn("item/commandExecution/outputDelta", turn_id, **told)] if text else []

    # -- turns

    def turn_id(self, number: str) -> str:
        """The id of a turn. It is told by the message that begins it, so it is known before the turn is."""
        known = self.turn_ids.get(number)
        return known if known is not None else self._first.get(number) or uuid_of(self.thread_id, "turn", number)

    @property
    def running_turn(self) -> str | None:
        """The id of the turn that runs."""
        return None if self.turn is None else self.turn_id(self.turn)

    def _begin_turn(self, started: TurnStarted, at: float) -> list[Notice]:
        self.turn, self._started_at, self._window = started.turn_id, at, started.window or self._window
        self.turn_ids[started.turn_id] = turn_id = self.turn_id(started.turn_id)
        self._last_message, self.failed = None, False
        turn = turn_object(turn_id, "inProgress", started_at=at)
        return [self.status(), ("turn/started", {"threadId": self.thread_id, "turn": turn})]

    def _end_turn(self, ended: TurnEnded, number: str, at: float) -> list[Notice]:
        turn_id = self.turn_id(number)
        self.turn_ids.setdefault(number, turn_id)
        notices = self._finish_text(ended, turn_id, at)
        if self._compaction is not None:
            notices += self.items.complete(items.compaction(self._compaction), turn_id, at)
            self._compaction = None
        notices += self.work.end_turn(turn_id, at)
        self.turn, self.failed = None, ended.reason == "failed"
        self.questions.clear()
        error = error_of(ended) if self.failed else None
        notices.append(self.status())
        if error is not None:
            notices.append(("error", {"error": error, "willRetry": False, "threadId": self.thread_id, "turnId": turn_id}))
        said = [] if self._last_message is None or ended.reason != "completed" else [self._last_message]
        times: Json = {"started_at": self._started_at or at, "completed_at": ended.cut_at or at}
        turn = turn_object(turn_id, ended.reason, items=said, view="summary" if said else "notLoaded", error=error, **times)
        return [*notices, ("turn/completed", {"threadId": self.thread_id, "turn": turn})]

    def _finish_text(self, ended: TurnEnded, turn_id: str, at: float) -> list[Notice]:
        """Of an answer that was cut off: what was shown of it stays."""
        notices: list[Notice] = []
        if self._thought is not None:
            notices += self.items.complete(items.reasoning(self._thought), turn_id, at)
        if self._text is not None or ended.unfinished:
            text = ended.unfinished or "".join(self._said)
            notices += self.items.complete(items.agent_message(self._text or self._ids.message(), text), turn_id, at)
        self._text = self._thought = None
        return notices

    def status(self) -> Notice:
        return "thread/status/changed", {"threadId": self.thread_id, "status": self.status_object()}

    def status_object(self) -> Json:
        if self.turn is not None:
            return {"type": "active", "activeFlags": ["waitingOnApproval"] if self.questions else []}
        return {"type": "systemError" if self.failed else "idle"}

    # -- messages

    def _accept(self, message: UserMessage, number: str) -> None:
        self._waiting[message.message_id] = message
        if number not in self.turn_ids:
            first = self._first.setdefault(number, message.message_id)
            if message.message_id in self.promised and first not in self.promised:
                self._first[number] = message.message_id
        if message.overrides is not None:
            self._choose(message.overrides)

    def _choose(self, overrides: Overrides) -> None:
        self.work.cwd = overrides.cwd or self.work.cwd

    def _read(self, message_id: str, turn_id: str, at: float) -> list[Notice]:
        message = self._waiting.pop(message_id, None)
        if message is None:
            return []
        return self.items.complete(items.user_message(uuid_of(message_id), message.message), turn_id, at)

    # -- what the model says

    def _item(self, item: Message | Reasoning | FunctionCall, show_raw: bool, turn_id: str, at: float) -> list[Notice]:
        match item:
            case Message():
                item_id, self._text = self._text, None
                text = item.text()
                if item_id is None and not text:
                    return []
                told = items.agent_message(item_id or self._ids.message(), text)
                notices = self.items.complete(told, turn_id, at)
                self._last_message = notices[-1][1]["item"]
                return notices
            case Reasoning(summary=summary, content=content):
                item_id, self._thought = self._thought, None
                summaries = [part.text for part in summary if part.text]
                raw = [part.text for part in content or () if part.text] if show_raw else []
                if item_id is None and not (summaries or raw):
                    return []
                return self.items.complete(items.reasoning(item_id or self._ids.reasoning(), summaries, raw), turn_id, at)
            case FunctionCall():
                self.work.called(item)
                return []

    def unfinished(self) -> list[Json]:
        """Items that have begun, with what has been said of them so far."""
        said = {self._text: "".join(self._said)}
        return [{**item, "text": said[item["id"]]} if item["id"] in said else item for item in self.items.all()]

    # -- questions

    def _ask(self, question: Question, turn_id: str, at: float) -> list[Notice]:
        told = self.work.asked(question, turn_id, at)
        self.questions[question.call_id] = question
        return [*told, self.status()]

    def _decide(self, decided: ApprovalDecided) -> list[Notice]:
        self.work.decided(decided)
        self._decided = "" if decided.source == CLIENT else f"approval {decided.decision}: {decided.source}"
        if self.questions.pop(decided.call_id, None) is None:
            return []
        return [self.status()]

    # -- shapes

    def token_usage(self, turn_id: str, last: Usage) -> Notice:
        counts = {"total": items.token_counts(self.usage or last), "last": items.token_counts(last)}
        return self._of_turn("thread/tokenUsage/updated", turn_id, tokenUsage={**counts, "modelContextWindow": self._window})

    def _of_turn(self, method: str, turn_id: str, **params: object) -> Notice:
        return method, {"threadId": self.thread_id, "turnId": turn_id, **params}

    def _warning(self, message: str) -> Notice:
        return "warning", {"threadId": self.thread_id, "message": message}

    def _server(self, name: str, status: str, error: str | None = None) -> Notice:
        told: Json = {"threadId": self.thread_id, "name": name, "status": status, "error": error, "failureReason": None}
        return "mcpServer/startupStatus/updated", told
