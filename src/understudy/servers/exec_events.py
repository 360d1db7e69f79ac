"""Events as programs read them that start `codex exec --json`: threads, turns, and items with a beginning and an end.

A codec for one viewer of one turn. Every command and patch is an item that is completed, also one that was refused or cut off.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from understudy.engine.approvals import decided_notice
from understudy.protocol.changes import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.protocol.items import FunctionCall, Message, Reasoning, Usage
from understudy.protocol.records import (
    AnswerRejected,
    ApprovalDecided,
    CommandEnded,
    CommandStarted,
    Compacted,
    Entry,
    ItemReceived,
    Noticed,
    Opened,
    OutputDelta,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    PlanUpdated,
    Question,
    Record,
    RetryScheduled,
    TokensCounted,
    ToolAnswered,
    ToolCallBegan,
    ToolCallEnded,
    TurnEnded,
    TurnStarted,
)
from understudy.servers.exec_lines import to_line

INTERRUPTED = "interrupted"
NO_EXIT_CODE = -1  # of a command that was refused, or whose end nobody has seen
MOST_GATHERED = 64 * 1024  # bytes of a command's output that are kept in the order in which they came

_PATCHED = r"(?m)^\*\*\* (Add|Update|Delete) File: (.+?)\s*$"
_KINDS = {"Add": "add", "Update": "update", "Delete": "delete"}

Json = dict[str, Any]
Begun = CommandStarted | PatchStarted | ToolCallBegan


class _Running:
    """A command that has begun. Its output is gathered as it comes, because the record keeps the two streams apart."""

    def __init__(self, item: Json) -> None:
        self.item = item
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= MOST_GATHERED:
            self._chunks.append(chunk)

    def output(self, ended: CommandEnded) -> str:
        apart = ended.stdout + ended.stderr
        together = b"".join(self._chunks).decode("utf-8", "replace")
        return together if len(together) == len(apart) and self._size <= MOST_GATHERED else apart

    def so_far(self) -> str:
        return b"".join(self._chunks).decode("utf-8", "replace")


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
        questions: Iterable[Question] = (),
        say: Callable[[str], str] | None = None,
    ) -> None:
        """`usage`: what the thread has used before. `warnings`: told before the turn begins. `in_form`: answers are JSON, which
        programs parse as they are. `begun`: what is under way already; of that, items tell when it ends. `called` and `questions`:
        what has not begun yet, and may be refused. `say`: what messages say in place of the model's own text.
        """
        self._warnings = warnings
        self._thread_id = thread_id
        self._cwd = cwd
        self._usage = usage
        self._in_form = in_form
        self._say = say
        self._items = 0
        self._began = False
        self._ended = False
        self._calls = {call.call_id: call for call in called}  # of which no item tells yet
        self._asked = {  # patches that somebody was asked about
            question.call_id: question.changes for question in questions if isinstance(question, PatchApprovalAsked)
        }
        self._commands: dict[str, _Running] = {}
        self._patches: dict[str, dict[str, FileChange]] = {}
        self._tool_calls: dict[str, Json] = {}
        self._missed = {record.call_id: record for record in begun}
        self._decided = ""
        self._plan: Json | None = None
        self.last_message: str | None = None

    # -- what no record says

    def thread_started(self) -> list[bytes]:
        started = to_line({"type": "thread.started", "thread_id": self._thread_id})
        return [started, *(self._warning(warning) for warning in self._warnings)]

    def _warning(self, message: str) -> bytes:
        return self._completed("error", message=message)

    def failed(self, message: str) -> list[bytes]:
        """The turn cannot be watched to its end."""
        return self._end(TurnEnded("failed", message))

    def interrupted(self) -> list[bytes]:
        return self._end(TurnEnded("interrupted"))

    # -- records

    def lines(self, entry: Entry) -> list[bytes]:
        record = entry.record
        if isinstance(record, Opened):
            return self.thread_started()
        if isinstance(record, TurnStarted):
            return self._begin()
        if isinstance(record, TurnEnded):
            return self._end(record)
        told = [*self._tell_missed(record), *self._tell(record)]
        return [*self._begin(), *told] if told else []

    def hear(self, delta: OutputDelta) -> None:
        """Output of a command, which its item shows at its end."""
        running = self._commands.get(delta.call_id)
        if running is not None:
            running.feed(delta.chunk)

    def _begin(self) -> list[bytes]:
        if self._began:
            return []
        self._began = True
        return [to_line({"type": "turn.started"})]

    def _tell_missed(self, record: Record) -> list[bytes]:
        """The beginning of what ends now, where it was before we came."""
        if not isinstance(record, CommandEnded | PatchEnded | ToolCallEnded):
            return []
        begun = self._missed.pop(record.call_id, None) or (record.started if isinstance(record, CommandEnded) else None)
        known = record.call_id in self._commands or record.call_id in self._patches or record.call_id in self._tool_calls
        return [] if begun is None or known else self._tell(begun)

    def _tell(self, record: Record) -> list[bytes]:
        match record:
            case ItemReceived(item=item, show_raw=show_raw):
                return self._item(item, show_raw)
            case CommandStarted() as started:
                self._calls.pop(started.call_id, None)
                return self._command_started(started.call_id, started.command)
            case CommandEnded() as ended:
                return self._command_ended(ended)
            case PatchStarted(call_id=call_id, changes=changes):
                self._calls.pop(call_id, None)
                self._patches[call_id] = changes
            case PatchEnded(call_id=call_id, success=success):
                return [self._file_change(self._changes(self._patches.pop(call_id, {})), success)]
            case PatchApprovalAsked(call_id=call_id, changes=changes):
                self._asked[call_id] = changes
            case ToolAnswered(output=output, success=success):
                return self._answered(output.call_id, output.output, success)
            case PlanUpdated(plan=plan):
                return [self._plan_updated([{"text": step.step, "completed": step.status == "completed"} for step in plan])]
            case AnswerRejected(problem=problem):
                return [self._warning(f"the answer does not fit the output schema: {problem}; the model tries again")]
            case ToolCallBegan() as began:
                self._calls.pop(began.call_id, None)
                self._tool_calls[began.call_id] = item = self._tool_call(began)
                return [to_line({"type": "item.started", "item": {**item, "status": "in_progress"}})]
            case ToolCallEnded() as ended:
                return [self._tool_call_ended(ended)]
            case ApprovalDecided(effective=True, decision=decision, source=source):
                self._decided = decided_notice(decision, source)
            case Noticed(message=message) if message != self._decided:  # the item of what was refused gives that reason
                return [self._warning(message)]
            case RetryScheduled() as retry:
                return [self._warning(retry.describe())]
            case TokensCounted(usage=usage, total=total):
                self._usage = total or usage
            case Compacted(total=total):
                self._usage = total or self._usage
            case _:
                pass
        return []

    def _item(self, item: Message | Reasoning | FunctionCall, show_raw: bool) -> list[bytes]:
        match item:
            case Message():
                text = item.text()
                if self._in_form:
                    from understudy.engine.answer_form.schema import without_fence  # only for those who want a form

                    text = without_fence(text)
                self.last_message = text
                shown = text if self._say is None else self._say(text)
                return [self._completed("agent_message", text=shown)] if text else []
            case Reasoning(summary=summary, content=content):
                parts = [part.text for part in (*summary, *((content or ()) if show_raw else ()))]
                text = "\n".join(part for part in parts if part)
                return [self._completed("reasoning", text=text)] if text else []
            case FunctionCall(call_id=call_id):
                self._calls[call_id] = item
                return []

    # -- commands

    def _command_started(self, call_id: str, argv: tuple[str, ...]) -> list[bytes]:
        from understudy.policy.quoting import quote_command  # many turns run none

        item = self._new("command_execution", command=quote_command(argv), aggregated_output="", exit_code=None)
        self._commands[call_id] = _Running(item)
        return [to_line({"type": "item.started", "item": {**item, "status": "in_progress"}})]

    def _command_ended(self, ended: CommandEnded) -> list[bytes]:
        running = self._commands.pop(ended.call_id, None)
        if running is None:  # it began before we came
            running = _Running(self._new("command_execution", command="", aggregated_output="", exit_code=None))
        return [_command_completed(running.item, running.output(ended), ended.exit_code)]

    def _answered(self, call_id: str, output: str, success: bool) -> list[bytes]:
        """A call of which nothing else tells was refused, or could not be done."""
        call = self._calls.pop(call_id, None)
        asked = self._asked.pop(call_id, None)
        patch = self._patches.pop(call_id, None)
        if patch is not None:  # begun, and nothing is known of its end
            return [self._file_change(self._changes(patch), success)]
        if call is None or success:
            return []
        if asked is not None:
            return [self._file_change(self._changes(asked), success=False)]
        if call.name == "apply_patch":
            return [self._file_change(self._named_in(call.arguments), success=False)]
        argv = argv_of(call)
        if argv is None:
            return []
        started = self._command_started(call_id, tuple(argv))
        return [*started, _command_completed(self._commands.pop(call_id).item, output, NO_EXIT_CODE)]

    # -- patches

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

    def _named_in(self, arguments: str) -> list[Json]:
        """The files that a patch names which was never applied."""
        try:
            given: object = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError):
            return []
        patch = next((text for text in given.values() if isinstance(text, str)), "") if isinstance(given, dict) else ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return [{"path": self._absolute(path), "kind": _KINDS[word]} for word, path in re.findall(_PATCHED, patch)]

    def _absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self._cwd, path))

    # -- tools of other servers

    def _tool_call(self, call: ToolCallBegan | ToolCallEnded) -> Json:
        fields: Json = {"server": call.server, "tool": call.tool, "arguments": call.arguments, "result": None, "error": None}
        return self._new("mcp_tool_call", **fields)

    def _tool_call_ended(self, ended: ToolCallEnded) -> bytes:
        item = self._tool_calls.pop(ended.call_id, None) or self._tool_call(ended)
        result = ended.result
        if result is not None:
            item["result"] = {"content": result.get("content", []), "structured_content": result.get("structuredContent")}
        else:
            item["error"] = {"message": ended.error or "the tool gave no result"}
        item["status"] = "failed" if ended.failed else "completed"
        return to_line({"type": "item.completed", "item": item})

    # -- the plan

    def _plan_updated(self, steps: list[Json]) -> bytes:
        kind = "item.started" if self._plan is None else "item.updated"
        self._plan = {**(self._plan or self._new("todo_list")), "items": steps}
        return to_line({"type": kind, "item": self._plan})

    # -- the end

    def _end(self, ended: TurnEnded) -> list[bytes]:
        if self._ended:
            return []
        self._ended = True
        lines = self._begin()
        for running in self._commands.values():
            lines.append(_command_completed(running.item, running.so_far(), NO_EXIT_CODE))
        for changes in self._patches.values():
            lines.append(self._file_change(self._changes(changes), success=False))
        for item in self._tool_calls.values():
            told = {**item, "error": {"message": INTERRUPTED}, "status": "failed"}
            lines.append(to_line({"type": "item.completed", "item": told}))
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


class _Shell(msgspec.Struct, frozen=True):
    """The arguments of tools that run commands."""

    command: list[str] | str | None = None
    cmd: str | None = None


def argv_of(call: FunctionCall) -> list[str] | None:
    """The command that a call wanted to run; None where it is for something else."""
    try:
        shell = msgspec.json.decode(call.arguments, type=_Shell)
    except (msgspec.MsgspecError, RecursionError):
        return None
    command = shell.command or shell.cmd
    return ["bash", "-lc", command] if isinstance(command, str) else command
