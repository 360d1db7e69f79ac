"""Turns records and deltas of one conversation into notifications of the app server: its turns, and its items from start to end.

It translates an `Activity` over the conversation's whole log, so that ids are always the same in every process. The viewer decides
who is told, and in which order with answers.

It also keeps track of open items: every item that begins is completed once.
"""

import os
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import Activity
from understudy.engine.log.broadcast import LiveDelta
from understudy.engine.planning.words import split_plan
from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall, Usage
from understudy.servers.app_server import items
from understudy.servers.app_server.items import ItemIds, uuid_of
from understudy.servers.app_server.turn_shape import error_of, retry_error, turn_object
from understudy.servers.app_server.wire import Json, Notice, milliseconds


class OpenItems:
    """Makes the notifications of a thread's items, and remembers which are open and since when."""

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self._open: dict[str, tuple[int, Json]] = {}

    def begin(self, item: Json, turn_id: str, at: float) -> list[Notice]:
        now = milliseconds(at)
        self._open[item["id"]] = now, item
        told = {**item, "startedAtMs": now, "completedAtMs": None}
        return [("item/started", {"item": told, "threadId": self._thread_id, "turnId": turn_id, "startedAtMs": now})]

    def complete(self, item: Json, turn_id: str, at: float) -> list[Notice]:
        """Complete an item; begin it first if it has not begun."""
        notices = [] if item["id"] in self._open else self.begin(item, turn_id, at)
        began, _ = self._open.pop(item["id"])
        now = max(milliseconds(at), began)  # the item began when its text came, which may be later than its record
        told = {**item, "startedAtMs": began, "completedAtMs": now}
        return [*notices, ("item/completed", {"item": told, "threadId": self._thread_id, "turnId": turn_id, "completedAtMs": now})]

    def update(self, item: Json) -> None:
        """Store the item's present form, for clients that join now."""
        if item["id"] in self._open:
            self._open[item["id"]] = self._open[item["id"]][0], item

    def all(self) -> list[Json]:
        return [{**item, "startedAtMs": began, "completedAtMs": None} for began, item in self._open.values()]


INTERRUPTED = "interrupted"
_PLAN_STATUS = {"pending": "pending", "in_progress": "inProgress", "completed": "completed"}
_UNTOLD = frozenset({r.TurnDropped})  # the viewer that promised the turn reports it
_KINDS: dict[str, Json] = {
    "Add": {"type": "add"},
    "Update": {"type": "update", "move_path": None},
    "Delete": {"type": "delete"},
}


class _Place(NamedTuple):
    """A step's place in the log: the turn by number and by id, and the time."""

    number: str
    turn_id: str
    at: float


PLAN = "<proposed_plan>"


class Projection:
    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.turn_ids: dict[str, str] = {}  # by the log's number of the turn
        self.promised: set[str] = set()  # messages for each of which a client was promised a turn with the same id
        self.turn: str | None = None  # the number of the running turn
        self.questions: dict[str, r.Question] = {}
        self.usage: Usage | None = None
        self.last_usage: Usage | None = None
        self.last_turn: str | None = None  # the turn of the last `TokensCounted`
        self.failed = False  # the last turn failed
        self.name: str | None = None
        self._activity = Activity()
        self._ids = ItemIds()
        self._open = OpenItems(thread_id)
        self._last_items: dict[str, str] = {}  # the id of each call's last item, by call id
        self._cwd = ""
        self._first: dict[str, str] = {}  # the message that begins each turn, by the turn's number
        self._started_at = 0.0
        self._window: int | None = None
        self._last_message: Json | None = None

    def entry(self, entry: r.Entry) -> list[Notice]:
        place = _Place(entry.turn, self.turn_id(entry.turn), entry.at)
        return [notice for step in self._activity.entry(entry) for notice in self._tell(step, place)]

    def delta(self, live: LiveDelta, at: float) -> list[Notice]:
        place = _Place(live.turn, self.turn_id(live.turn), at)
        return [notice for step in self._activity.delta(live.delta) for notice in self._tell(step, place)]

    def _tell(self, step: a.Step, place: _Place) -> list[Notice]:
        match step:
            case a.Grew():
                return self._grew(step, place)
            case a.Began(item=item):
                return self._begin(item, place)
            case a.Resumed(item=item):  # its question has already begun the item
                item.name = self._shape(item, item.name["id"])
                self._open.update(item.name)
                return []
            case a.Ended():
                return self._ended(step, place)
            case a.Answered(call=call, output=output, success=success):
                return [] if success else self._never_began(call, output, place)
            case a.Asked(question=question):
                self.questions[question.call_id] = question
                return [self.status()]
            case a.Decided(record=decided):
                return [] if self.questions.pop(decided.call_id, None) is None else [self.status()]
            case a.Accepted(message=message):
                self._accept(message, place.number)
                return []
            case a.Read(message=message):
                item = items.user_message(uuid_of(message.message_id), message.message)
                return self._open.complete(item, place.turn_id, place.at)
            case a.Told():
                return self._told(step, place)
            case a.LeftRunning():
                return []

    def _told(self, told: a.Told, place: _Place) -> list[Notice]:
        name = self.NAMES.get(type(told.record))
        if name is not None:
            return name(self, told.record, place)
        if not told.words or told.repeats or type(told.record) in _UNTOLD:
            return []
        if isinstance(told.record, r.Noticed) and (told.record.withdraws or self.turn is None):
            return []  # the whole message follows; or the record belongs to the past of a copied conversation
        return [self._warning(told.words)]

    # -- items

    def item_of(self, call_id: str) -> str:
        """The id of the call's item, or the call's own id if it has no item."""
        return self._last_items.get(call_id, call_id)

    def unfinished(self) -> list[Json]:
        """Items that have begun, with their text so far."""
        text = self._activity.unfinished()
        said = {} if text is None else {text.name["id"]: "".join(text.said)}
        return [{**item, "text": said[item["id"]]} if item["id"] in said else item for item in self._open.all()]

    def _shape(self, item: a.Shown, known: str | None = None) -> Json:
        """The item's initial form, with its existing id or a new one."""
        match item:
            case a.Text():
                return items.agent_message(known or self._ids.message(), "")
            case a.Thought():
                return items.reasoning(known or self._ids.reasoning())
            case a.Compaction(seq=seq):
                return items.compaction(known or uuid_of(self.thread_id, "compaction", str(seq)))
            case a.Command(argv=argv, cwd=cwd, session=session):
                return items.command(known or self._new_id(item.call_id), argv, cwd, session)
            case a.Patch(changes=changes):
                return items.file_change(known or self._new_id(item.call_id), items.changes_of(changes, self._cwd))
            case a.ToolCall():
                return items.tool_call(known or self._new_id(item.call_id), item)
            case a.Image(path=path):
                return items.image_view(known or self._new_id(item.call_id), path)
            case a.UserQuestion():
                return {"id": self._new_id(item.call_id)}  # the question names this id, but no item has it
            case a.BudgetQuestion():
                return {"id": item.call_id}  # shown only as a question

    def _new_id(self, call_id: str) -> str:
        self._last_items[call_id] = item_id = self._ids.call(call_id)
        return item_id

    def _begin(self, item: a.Shown, place: _Place) -> list[Notice]:
        item.name = self._shape(item)
        return [] if isinstance(item, a.BudgetQuestion | a.UserQuestion) else self._open.begin(item.name, place.turn_id, place.at)

    def _grew(self, grew: a.Grew, place: _Place) -> list[Notice]:
        if not grew.text and isinstance(grew.item, a.Command):
            return []  # an incomplete character waits for its remaining bytes
        told: Json = {"itemId": grew.item.name["id"], "delta": grew.text}
        match grew.item:
            case a.Text():
                return [self._of_turn("item/agentMessage/delta", place.turn_id, **told)]
            case a.Thought() if grew.raw:
                return [self._of_turn("item/reasoning/textDelta", place.turn_id, **told, contentIndex=0)]
            case a.Thought():
                return [self._of_turn("item/reasoning/summaryTextDelta", place.turn_id, **told, summaryIndex=0)]
            case a.Command():
                return [self._of_turn("item/commandExecution/outputDelta", place.turn_id, **told)]

    def _ended(self, ended: a.Ended, place: _Place) -> list[Notice]:
        item = ended.item
        if self._is_nothing(ended):
            return []
        begun: Json = item.name or self._shape(item)
        if isinstance(item, a.Text) and PLAN in ended.text:
            return self._ended_with_plan(ended, begun, place)
        notices = self._open.complete(self._end_shape(ended, begun), place.turn_id, place.at)
        if ended.how == "done":
            match item:
                case a.Text():
                    self._last_message = notices[-1][1]["item"]
                case a.Compaction() if isinstance(ended.record, r.Compacted):
                    self.usage = ended.record.total or self.usage
                case _:
                    pass
        return notices

    def _ended_with_plan(self, ended: a.Ended, begun: Json, place: _Place) -> list[Notice]:
        """A plan that a message proposes becomes an item of its own, outside the message."""
        plan, text = split_plan(ended.text)
        planned: Json = {"type": "plan", "id": f"{place.turn_id}-plan", "text": plan}
        told = (
            []
            if not plan
            else [
                *self._open.begin({**planned, "text": ""}, place.turn_id, place.at),
                *self._open.complete(planned, place.turn_id, place.at),
            ]
        )
        notices = self._open.complete({**begun, "text": text}, place.turn_id, place.at)
        if ended.how == "done":
            self._last_message = notices[-1][1]["item"]
        return [*told, *notices]

    def _is_nothing(self, ended: a.Ended) -> bool:
        """Whether there is no item to report: nothing of it was shown before, and there is nothing to show now."""
        match ended.item:
            case a.Text(missed=True):
                return not ended.text
            case a.Thought(missed=True):
                return not (ended.summary or ended.raw)
            case a.Command(missed=missed) | a.Patch(missed=missed):
                return missed
            case item:
                return isinstance(item, a.BudgetQuestion | a.UserQuestion)

    def _end_shape(self, ended: a.Ended, begun: Json) -> Json:
        match ended.item, ended.record:
            case a.Text(), _:
                return {**begun, "text": ended.text, "phase": ended.phase}
            case a.Thought(), _:
                return items.reasoning(begun["id"], ended.summary, ended.raw)
            case a.Command(output=output), r.CommandEnded() as record:
                return items.ended_command(begun, record, output.whole(record))
            case a.Patch(), r.PatchEnded(success=success):
                return {**begun, "status": "completed" if success else "failed"}
            case a.ToolCall(), r.ToolCallEnded() as record:
                return items.ended_tool_call(begun, record)
            case a.Command(output=output) as item, _:
                return {**begun, "status": _failed(item), "aggregatedOutput": output.so_far() or None}
            case a.Patch() as item, _:
                return {**begun, "status": _failed(item)}
            case a.ToolCall(), _:
                why = INTERRUPTED if ended.how == "cut" else ended.text or "the tool was not called"
                return {**begun, "status": "failed", "error": {"message": why}}
            case _:
                return begun

    def _never_began(self, call: FunctionCall, output: str, place: _Place) -> list[Notice]:
        """A call that was refused or could not be made."""
        if call.name == "apply_patch":
            item = items.file_change(self._new_id(call.call_id), self._named_in(call), "failed")
        elif (argv := a.argv_of(call)) is not None:
            begun = items.command(self._new_id(call.call_id), argv, self._cwd)
            item = {**begun, "status": "failed", "aggregatedOutput": output or None}
        else:
            return []
        return self._open.complete(item, place.turn_id, place.at)

    def _named_in(self, call: FunctionCall) -> list[Json]:
        """The files named by a patch that was never applied."""
        named = [(os.path.normpath(os.path.join(self._cwd, path)), word) for word, path in a.files_of(call)]
        return [{"path": path, "kind": _KINDS[word], "diff": ""} for path, word in sorted(named)]

    # -- turns

    def turn_id(self, number: str) -> str:
        """The id of a turn. The message that begins the turn determines it, so it is known before the turn begins."""
        known = self.turn_ids.get(number)
        return known if known is not None else self._first.get(number) or uuid_of(self.thread_id, "turn", number)

    @property
    def running_turn(self) -> str | None:
        """The id of the running turn."""
        return None if self.turn is None else self.turn_id(self.turn)

    def _accept(self, message: r.UserMessage, number: str) -> None:
        if number not in self.turn_ids:
            first = self._first.setdefault(number, message.message_id)
            if message.message_id in self.promised and first not in self.promised:
                self._first[number] = message.message_id
        if message.overrides is not None:
            self._cwd = message.overrides.cwd or self._cwd

    def _turn_started(self, started: r.TurnStarted, place: _Place) -> list[Notice]:
        self.turn, self._started_at, self._window = started.turn_id, place.at, started.window or self._window
        self.turn_ids[started.turn_id] = turn_id = self.turn_id(started.turn_id)
        self._last_message, self.failed = None, False
        turn = turn_object(turn_id, "inProgress", started_at=place.at)
        return [self.status(), ("turn/started", {"threadId": self.thread_id, "turn": turn})]

    def _turn_ended(self, ended: r.TurnEnded, place: _Place) -> list[Notice]:
        turn_id, at = place.turn_id, place.at
        self.turn_ids.setdefault(place.number, turn_id)
        self.turn, self.failed = None, ended.reason == "failed"
        self.questions.clear()
        error = error_of(ended) if self.failed else None
        notices = [self.status()]
        if error is not None:
            notices.append(("error", {"error": error, "willRetry": False, "threadId": self.thread_id, "turnId": turn_id}))
        said = [] if self._last_message is None or ended.reason != "completed" else [self._last_message]
        times: Json = {"started_at": self._started_at or at, "completed_at": ended.cut_at or at}
        turn = turn_object(turn_id, ended.reason, items=said, view="summary" if said else "notLoaded", error=error, **times)
        return [*notices, ("turn/completed", {"threadId": self.thread_id, "turn": turn})]

    def status(self) -> Notice:
        return "thread/status/changed", {"threadId": self.thread_id, "status": self.status_object()}

    def status_object(self) -> Json:
        if self.turn is not None:
            return {"type": "active", "activeFlags": self._waits_on()}
        return {"type": "systemError" if self.failed else "idle"}

    def _waits_on(self) -> list[str]:
        of_user = [isinstance(question, r.UserInputAsked) for question in self.questions.values()]
        return ["waitingOnApproval"] * (not all(of_user)) + ["waitingOnUserInput"] * any(of_user)

    # -- records without an item

    def _opened(self, opened: r.Opened, _: _Place) -> list[Notice]:
        self._cwd = opened.overrides.cwd or self._cwd
        return []

    def _queued(self, queued: r.TurnQueued, _: _Place) -> list[Notice]:
        self.promised.add(queued.message.message_id)
        return []

    def _counted(self, counted: r.TokensCounted, place: _Place) -> list[Notice]:
        last = counted.usage
        self.usage, self.last_usage, self.last_turn = counted.total or last, last, place.turn_id
        return [self.token_usage(place.turn_id, last)]

    def _plan_updated(self, updated: r.PlanUpdated, place: _Place) -> list[Notice]:
        steps = [{"step": step.step, "status": _PLAN_STATUS[step.status]} for step in updated.plan]
        return [self._of_turn("turn/plan/updated", place.turn_id, explanation=updated.explanation, plan=steps)]

    def _diff_changed(self, changed: r.DiffChanged, place: _Place) -> list[Notice]:
        diff = items.relative_diff(changed.unified_diff, self._cwd)
        return [self._of_turn("turn/diff/updated", place.turn_id, diff=diff)]

    def _typed(self, written: r.InputWritten, place: _Place) -> list[Notice]:
        told: Json = {"itemId": self.item_of(written.call_id), "processId": str(written.session), "stdin": written.text}
        return [self._of_turn("item/commandExecution/terminalInteraction", place.turn_id, **told)]

    def _servers_checked(self, checked: r.ServersChecked, _: _Place) -> list[Notice]:
        missing = [self._server(name, "failed", why) for name, why in checked.missing.items()]
        return [*(self._server(name, "ready") for name in checked.ready), *missing]

    def _hook_ran(self, ran: r.HookRan, place: _Place) -> list[Notice]:
        """A hook's beginning is reported with its end, because the log only has hooks that have ended."""
        begun, ended = items.hook_run(ran, over=False), items.hook_run(ran, over=True)
        notices = [
            self._of_turn("hook/started", place.turn_id, run=begun),
            self._of_turn("hook/completed", place.turn_id, run=ended),
        ]
        if ran.event == "Stop" and ran.context:
            item: Json = {"type": "hookPrompt", "id": uuid_of(self.thread_id, "hook", ran.run_id, str(ran.began_at))}
            item["fragments"] = [{"text": ran.reason, "hookRunId": ran.run_id}]
            notices += self._open.complete(item, place.turn_id, place.at)
        return notices

    def _renamed(self, renamed: r.Renamed, _: _Place) -> list[Notice]:
        self.name = renamed.title
        return [("thread/name/updated", {"threadId": self.thread_id, "threadName": renamed.title})]

    def _answer_rejected(self, rejected: r.AnswerRejected, _: _Place) -> list[Notice]:
        return [self._warning(f"the answer does not fit the output schema: {rejected.problem}; the model tries again")]

    def _retry(self, retry: r.RetryScheduled, place: _Place) -> list[Notice]:
        where: Json = {"threadId": self.thread_id, "turnId": place.turn_id}
        return [("error", {"error": retry_error(retry), "willRetry": True, **where})]

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

    NAMES: ClassVar[dict[type[r.Record], Callable[["Projection", Any, _Place], list[Notice]]]] = {
        r.Opened: _opened,
        r.TurnStarted: _turn_started,
        r.HookRan: _hook_ran,
        r.TurnEnded: _turn_ended,
        r.TurnQueued: _queued,
        r.TokensCounted: _counted,
        r.PlanUpdated: _plan_updated,
        r.DiffChanged: _diff_changed,
        r.InputWritten: _typed,
        r.ServersChecked: _servers_checked,
        r.Renamed: _renamed,
        r.AnswerRejected: _answer_rejected,
        r.RetryScheduled: _retry,
    }


def _failed(item: a.Work) -> str:
    return "declined" if item.declined else "failed"
