"""Events for programs that start `codex exec --json`: threads, turns, and items with a beginning and an end.

Translates the names of an `Activity` for the viewer of one turn. Every command and patch becomes a completed item, even if it was
refused or cut off.

Each event is one line of JSON, kept short enough for every client: some of them fail at a line of 64 KiB.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, assert_never, cast

import msgspec

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import Activity, Begun
from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall, Usage
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile

MOST_BYTES = 60_000  # of a line, including its end
SHORTEST_CUT = 200  # characters: shorter texts are not cut
MOST_ENTRIES = 50  # entries that remain of a list that is still too long

_FIRST = frozenset({"aggregated_output"})  # these are cut before anything else, then
_SECOND = frozenset({"result", "arguments", "error"})

_encode = msgspec.json.Encoder().encode


def to_line(event: dict[str, Any]) -> bytes:
    line = _encode(event)
    if len(line) >= MOST_BYTES:
        line = _encode(_shortened(event, len(line)))
    return line + b"\n"


def cut(text: str, most: int) -> str:
    """The head and tail of a text, with a mark between them that says how much is missing."""
    if len(text) <= most:
        return text
    mark = f"\n[... omitted {len(text) - most} of {len(text)} characters ...]\n"
    half = max(most // 2, 1)
    return text[:half] + mark + text[len(text) - (most - half) :]


def _shortened(event: dict[str, Any], size: int) -> dict[str, Any]:
    event = cast(dict[str, Any], msgspec.to_builtins(event))
    for names in (_FIRST, _SECOND, None):
        while size >= MOST_BYTES and (found := _longest(event, names)) is not None:
            holder, key = found
            text: str = holder[key]
            bytes_now = len(_encode(text))
            left = max(bytes_now - (size - MOST_BYTES) - 100, 0)
            most = min(int(len(text) * left / bytes_now), len(text) - SHORTEST_CUT // 2 - 1)
            holder[key] = cut(text, most) if most > SHORTEST_CUT else cut(text, SHORTEST_CUT // 2)
            size = len(_encode(event))
    while size >= MOST_BYTES and (entries := _longest_list(event)) is not None:  # thousands of short texts
        del entries[max(len(entries) // 2, 1) :]
        size = len(_encode(event))
    return event


def _longest(value: Any, within: frozenset[str] | None, *, inside: bool = False) -> tuple[Any, Any] | None:
    """The longest text in the event, by its container and key. `within`: search only below these names."""
    best: tuple[Any, Any] | None = None
    length = SHORTEST_CUT
    for key, below in _members(value):
        counts = inside or within is None or key in within
        itself = (value, key) if counts else None
        found = itself if isinstance(below, str) else _longest(below, within, inside=counts)
        if found is not None and len(found[0][found[1]]) > length:
            best, length = found, len(found[0][found[1]])
    return best


def _longest_list(value: Any) -> list[Any] | None:
    best: list[Any] | None = cast(list[Any], value) if isinstance(value, list) and len(cast(list[Any], value)) > 1 else None
    for _, below in _members(value):
        found = _longest_list(below)
        if found is not None and (best is None or len(found) > len(best)):
            best = found
    return best


def _members(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast(dict[Any, Any], value).items())
    return list(enumerate(cast(list[Any], value))) if isinstance(value, list) else []


INTERRUPTED = "interrupted"
NO_EXIT_CODE = -1  # of a command that was refused, or whose end nobody has seen

_KINDS = {"Add": "add", "Update": "update", "Delete": "delete"}
# meaningless for someone who watches a single turn
_OF_WORKSPACES = {r.WorkspaceSaveStarted, r.WorkspaceSaved, r.WorkspaceMoved}
_UNTOLD = frozenset({r.ServersChecked, r.InputWritten, r.Renamed, r.UndoEnded, r.TurnQueued, r.TurnDropped, *_OF_WORKSPACES})

Json = dict[str, Any]


class ExecEvents:
    def __init__(
        self,
        thread_id: str,
        cwd: str,
        *,
        usage: Usage | None = None,
        warnings: Sequence[str] = (),
        in_form: bool = False,
        begun: Sequence[Begun] = (),
        called: Sequence[FunctionCall] = (),
        questions: Iterable[r.Question] = (),
        say: Callable[[str], str] | None = None,
    ) -> None:
        """`usage`: what the thread has used before. `warnings`: shown before the turn begins. `in_form`: answers are JSON, which
        programs parse as it is. `begun`, `called`, `questions`: what is in progress already; see `Activity`. `say`: what messages
        contain instead of the model's own text.
        """
        self._activity = Activity(begun=begun, called=called, questions=questions, one_turn=True)
        self._warnings = warnings
        self._thread_id = thread_id
        self._cwd = cwd
        self._usage = usage
        self._in_form = in_form
        self._say = say
        self._items = 0
        self._began = False
        self._over = False
        self._plan: Json | None = None
        self.last_message: str | None = None

    # -- what no record says

    def thread_started(self) -> list[bytes]:
        started = to_line({"type": "thread.started", "thread_id": self._thread_id})
        return [started, *(self._warning(warning) for warning in self._warnings)]

    def _warning(self, message: str) -> bytes:
        return self._completed("error", message=message)

    def failed(self, message: str) -> list[bytes]:
        """Report that the turn cannot be watched to its end, and why."""
        return self._leave(r.TurnEnded("failed", message))

    def interrupted(self) -> list[bytes]:
        return self._leave(r.TurnEnded("interrupted"))

    def _leave(self, ended: r.TurnEnded) -> list[bytes]:
        return self.lines(r.Entry(0, 0, "", 0.0, ended))

    # -- steps

    def lines(self, entry: r.Entry) -> list[bytes]:
        if isinstance(entry.record, r.Opened):
            return self.thread_started()
        told = [line for step in self._activity.entry(entry) for line in self._tell(step)]
        return [*self._begin(), *told] if told else []

    def hear(self, delta: r.OutputDelta) -> None:
        """Output of a command, which its item contains at the end."""
        self._activity.delta(delta)

    def _begin(self) -> list[bytes]:
        if self._began:
            return []
        self._began = True
        return [to_line({"type": "turn.started"})]

    def _tell(self, step: a.Step) -> list[bytes]:
        match step:
            case a.Began(item=item) | a.Resumed(item=item):
                return self._item_began(item)
            case a.Ended():
                return self._item_ended(step)
            case a.Answered(call=call, output=output, success=success):
                return [] if success else self._never_began(call, output)
            case a.Told():
                return self._told(step)
            case a.Grew() | a.LeftRunning() | a.Asked() | a.Decided() | a.Accepted() | a.Read():
                return []

    def _told(self, told: a.Told) -> list[bytes]:
        name = self.NAMES.get(type(told.record))
        if name is not None:
            return name(self, told.record)
        return [self._warning(told.words)] if told.words and not told.repeats and type(told.record) not in _UNTOLD else []

    # -- items

    def _item_began(self, item: a.Shown) -> list[bytes]:
        match item:
            case a.Command(running=True):
                item.name = self._command(item.argv)
            case a.ToolCall(running=True):
                item.name = self._tool_call(item)
            case _:  # items are not shown before they run, and most only when they end
                return []
        return [to_line({"type": "item.started", "item": {**item.name, "status": "in_progress"}})]

    def _item_ended(self, ended: a.Ended) -> list[bytes]:
        item = ended.item
        match item:
            case a.Text():
                return self._message(ended.text) if ended.how == "done" else []
            case a.Thought():
                text = "\n".join((*ended.summary, *ended.raw))
                return [self._completed("reasoning", text=text)] if text else []
            case a.Command() | a.Patch() | a.ToolCall() if not item.running and not item.missed:
                return self._refused(ended)
            case a.Command():
                known = item.name or self._command(item.argv)
                if isinstance(ended.record, r.CommandEnded):
                    return [_command_completed(known, item.output.whole(ended.record), ended.record.exit_code)]
                return [_command_completed(known, item.output.so_far(), NO_EXIT_CODE)]
            case a.Patch(changes=changes):
                return [self._file_change(self._changes(changes), ended.success and ended.how != "cut")]
            case a.ToolCall():
                return [self._tool_call_ended(item.name or self._tool_call(item), ended)]
            case a.Compaction():
                if isinstance(ended.record, r.Compacted):
                    self._usage = ended.record.total or self._usage
                return []
            case a.Image() | a.BudgetQuestion() | a.UserQuestion():
                return []
            case _:
                assert_never(item)

    def _refused(self, ended: a.Ended) -> list[bytes]:
        if ended.call is None or ended.success:
            return []
        if isinstance(ended.item, a.Patch):
            return [self._file_change(self._changes(ended.item.changes), success=False)]
        return self._never_began(ended.call, ended.text)

    def _never_began(self, call: FunctionCall, output: str) -> list[bytes]:
        """A call that no other record mentions: it was refused, or could not be made."""
        if call.name == "apply_patch":
            named = [{"path": self._absolute(path), "kind": _KINDS[word]} for word, path in a.files_of(call)]
            return [self._file_change(named, success=False)]
        argv = a.argv_of(call)
        if argv is None:
            return []
        item = self._command(argv)
        started = to_line({"type": "item.started", "item": {**item, "status": "in_progress"}})
        return [started, _command_completed(item, output, NO_EXIT_CODE)]

    def _message(self, text: str) -> list[bytes]:
        if self._in_form:
            from understudy.engine.turn.answer_form import without_fence  # needed only if a form was asked for

            text = without_fence(text)
        self.last_message = text
        shown = text if self._say is None else self._say(text)
        return [self._completed("agent_message", text=shown)] if text else []

    def _command(self, argv: tuple[str, ...]) -> Json:
        from understudy.text import quote_command  # many turns run no command

        return self._new("command_execution", command=quote_command(argv), aggregated_output="", exit_code=None)

    def _file_change(self, changes: list[Json], success: bool) -> bytes:
        status = "completed" if success else "failed"
        return self._completed("file_change", changes=sorted(changes, key=lambda change: str(change["path"])), status=status)

    def _changes(self, changes: dict[str, FileChange]) -> list[Json]:
        told: list[Json] = []
        for path, change in changes.items():
            match change:
                case AddFile():
                    told.append({"path": self._absolute(path), "kind": "add"})
                case DeleteFile():
                    told.append({"path": self._absolute(path), "kind": "delete"})
                case UpdateFile(move_path=target):
                    told.append({"path": self._absolute(path), "kind": "update"})
                    if target is not None:
                        told[-1]["move_path"] = self._absolute(target)
                        told.append({"path": self._absolute(target), "kind": "add"})
        return told

    def _absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._cwd, path))

    def _tool_call(self, call: a.ToolCall) -> Json:
        fields: Json = {"server": call.server, "tool": call.tool, "arguments": call.arguments, "result": None, "error": None}
        return self._new("mcp_tool_call", **fields)

    def _tool_call_ended(self, item: Json, ended: a.Ended) -> bytes:
        record = ended.record
        if not isinstance(record, r.ToolCallEnded):
            item = {**item, "error": {"message": ended.text or INTERRUPTED}, "status": "failed"}
        elif record.result is None:
            item = {**item, "error": {"message": record.error or "the tool gave no result"}, "status": "failed"}
        else:
            given = record.result
            result = {"content": given.get("content", []), "structured_content": given.get("structuredContent")}
            item = {**item, "result": result, "status": "failed" if record.failed else "completed"}
        return to_line({"type": "item.completed", "item": item})

    # -- records that stand for themselves

    def _turn_started(self, _: r.TurnStarted) -> list[bytes]:
        return self._begin()

    def _plan_updated(self, updated: r.PlanUpdated) -> list[bytes]:
        steps = [{"text": step.step, "completed": step.status == "completed"} for step in updated.plan]
        kind = "item.started" if self._plan is None else "item.updated"
        self._plan = {**(self._plan or self._new("todo_list")), "items": steps}
        return [to_line({"type": kind, "item": self._plan})]

    def _answer_rejected(self, rejected: r.AnswerRejected) -> list[bytes]:
        return [self._warning(f"the answer does not fit the output schema: {rejected.problem}; the model tries again")]

    def _counted(self, counted: r.TokensCounted) -> list[bytes]:
        self._usage = counted.total or counted.usage
        return []

    def _turn_ended(self, ended: r.TurnEnded) -> list[bytes]:
        if self._over:
            return []
        self._over = True
        lines = self._begin()
        message = ended.describe_failure()
        if ended.reason == "failed":
            lines.append(to_line({"type": "error", "message": message}))
        if self._plan is not None:
            lines.append(to_line({"type": "item.completed", "item": self._plan}))
        if ended.reason == "completed":
            lines.append(to_line({"type": "turn.completed", "usage": usage_of(self._usage)}))
        else:
            why = message if ended.reason == "failed" else INTERRUPTED
            lines.append(to_line({"type": "turn.failed", "error": {"message": why}}))
        return lines

    def _new(self, kind: str, **fields: Any) -> Json:
        item: Json = {"id": f"item_{self._items}", "type": kind, **fields}
        self._items += 1
        return item

    def _completed(self, kind: str, **fields: Any) -> bytes:
        return to_line({"type": "item.completed", "item": self._new(kind, **fields)})

    NAMES: ClassVar[dict[type[r.Record], Callable[["ExecEvents", Any], list[bytes]]]] = {
        r.TurnStarted: _turn_started,
        r.PlanUpdated: _plan_updated,
        r.AnswerRejected: _answer_rejected,
        r.TokensCounted: _counted,
        r.TurnEnded: _turn_ended,
    }


def _command_completed(item: Json, output: str, exit_code: int) -> bytes:
    status = "completed" if exit_code == 0 else "failed"
    done = {**item, "aggregated_output": output, "exit_code": exit_code, "status": status}
    return to_line({"type": "item.completed", "item": done})


def usage_of(usage: Usage | None) -> dict[str, int]:
    counted = usage or Usage(0, 0, 0)
    return {
        "input_tokens": counted.input_tokens,
        "cached_input_tokens": counted.cached_input_tokens or 0,
        "cache_write_input_tokens": counted.cache_write_input_tokens or 0,
        "output_tokens": counted.output_tokens,
        "reasoning_output_tokens": counted.reasoning_output_tokens or 0,
    }
