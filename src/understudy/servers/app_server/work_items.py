"""Commands, patches and calls of other servers' tools as items: from the question or the beginning to the one end of each."""

import codecs
import os
import re
from typing import Any, cast

import msgspec

from understudy.protocol.items import FunctionCall
from understudy.protocol.records import (
    ApprovalDecided,
    BudgetAsked,
    CommandApprovalAsked,
    CommandEnded,
    CommandStarted,
    OutputDelta,
    PatchApprovalAsked,
    PatchEnded,
    PatchStarted,
    Question,
    ToolAnswered,
    ToolApprovalAsked,
    ToolCallBegan,
    ToolCallEnded,
)
from understudy.servers.app_server import items
from understudy.servers.app_server.item_ids import ItemIds
from understudy.servers.app_server.open_items import OpenItems
from understudy.servers.app_server.wire import Json, Notice
from understudy.servers.exec_events import argv_of

MOST_GATHERED = 64 * 1024  # bytes of a command's output that are kept in the order in which they came
INTERRUPTED = "interrupted"

_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_KINDS: dict[str, Json] = {
    "Add": {"type": "add"},
    "Update": {"type": "update", "move_path": None},
    "Delete": {"type": "delete"},
}


class _Output:
    """What a command has printed. Its record keeps the two streams apart; here they stand in the order in which they came."""

    def __init__(self) -> None:
        self._decode = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, delta: OutputDelta) -> str:
        self._size += len(delta.chunk)
        if self._size <= MOST_GATHERED:
            self._chunks.append(delta.chunk)
        return self._decode[delta.stream].decode(delta.chunk)

    def so_far(self) -> str:
        return b"".join(self._chunks).decode("utf-8", "replace")

    def whole(self, ended: CommandEnded) -> str:
        apart = ended.stdout + ended.stderr
        together = self.so_far()
        return together if len(together) == len(apart) and self._size <= MOST_GATHERED else apart


class WorkItems:
    def __init__(self, ids: ItemIds, open_items: OpenItems) -> None:
        self._ids = ids
        self._open = open_items
        self.cwd = ""  # a value, not a way to ask the owner: such a cycle would keep a whole history until garbage is collected
        self._calls: dict[str, FunctionCall] = {}  # of which no item tells yet
        self._items: dict[str, Json] = {}  # open ones, by the id of their call
        self._outputs: dict[str, _Output] = {}
        self._decided: dict[str, ApprovalDecided] = {}
        self._last: dict[str, str] = {}  # the last item of a call, by the call's id

    def item_of(self, call_id: str) -> str:
        """The id of the item that tells of this call; the call's own where none does."""
        return self._last.get(call_id, call_id)

    def called(self, call: FunctionCall) -> None:
        self._calls[call.call_id] = call

    # -- questions

    def asked(self, question: Question, turn_id: str, at: float) -> list[Notice]:
        """The item that a question is about is there before the question."""
        if question.call_id in self._items:
            return []
        match question:
            case CommandApprovalAsked(call_id=call_id, command=argv, cwd=cwd):
                return self._begin(call_id, items.command(self._new_id(call_id), argv, cwd), turn_id, at)
            case PatchApprovalAsked(call_id=call_id, changes=changes):
                item = items.file_change(self._new_id(call_id), items.changes_of(changes, self.cwd))
                return self._begin(call_id, item, turn_id, at)
            case ToolApprovalAsked(call_id=call_id):
                return self._begin(call_id, items.tool_call(self._new_id(call_id), question), turn_id, at)
            case BudgetAsked():
                return []

    def decided(self, decided: ApprovalDecided) -> None:
        self._decided[decided.call_id] = decided

    # -- beginnings

    def command_started(self, started: CommandStarted, turn_id: str, at: float) -> list[Notice]:
        call_id = started.call_id
        known = self._items.get(call_id)
        self._outputs[call_id] = _Output()
        item_id = self._new_id(call_id) if known is None else known["id"]
        item = items.command(item_id, started.command, started.cwd, started.session)
        return self._go_on(call_id, item, turn_id, at)

    def patch_started(self, started: PatchStarted, turn_id: str, at: float) -> list[Notice]:
        known = self._items.get(started.call_id)
        item_id = self._new_id(started.call_id) if known is None else known["id"]
        item = items.file_change(item_id, items.changes_of(started.changes, self.cwd))
        return self._go_on(started.call_id, item, turn_id, at)

    def tool_call_began(self, began: ToolCallBegan, turn_id: str, at: float) -> list[Notice]:
        known = self._items.get(began.call_id)
        item = items.tool_call(self._new_id(began.call_id) if known is None else known["id"], began)
        return self._go_on(began.call_id, item, turn_id, at)

    def output(self, delta: OutputDelta) -> tuple[str, str]:
        """The item's id, and what it has printed; nothing where half a character has to wait for its rest."""
        output = self._outputs.setdefault(delta.call_id, _Output())
        return self.item_of(delta.call_id), output.feed(delta)

    # -- ends

    def command_ended(self, ended: CommandEnded, turn_id: str, at: float) -> list[Notice]:
        notices: list[Notice] = []
        if ended.call_id not in self._items:
            if ended.started is None:
                return []
            notices = self.command_started(ended.started, turn_id, at)  # it began before all that is known here
        output = self._outputs.pop(ended.call_id, None) or _Output()
        item = items.ended_command(self._items.pop(ended.call_id), ended, output.whole(ended))
        return [*notices, *self._open.complete(item, turn_id, at)]

    def patch_ended(self, ended: PatchEnded, turn_id: str, at: float) -> list[Notice]:
        item = self._items.pop(ended.call_id, None)
        if item is None:
            return []
        return self._open.complete({**item, "status": "completed" if ended.success else "failed"}, turn_id, at)

    def tool_call_ended(self, ended: ToolCallEnded, turn_id: str, at: float) -> list[Notice]:
        item = self._items.pop(ended.call_id, None) or items.tool_call(self._new_id(ended.call_id), ended)
        self._calls.pop(ended.call_id, None)
        return self._open.complete(items.ended_tool_call(item, ended), turn_id, at)

    def answered(self, answered: ToolAnswered, turn_id: str, at: float) -> list[Notice]:
        """A call that never got going was refused, or could not be done. One that goes on has its item left open."""
        call_id, output = answered.output.call_id, answered.output.output
        call = self._calls.pop(call_id, None)
        item = self._items.get(call_id)
        if item is not None and call_id not in self._outputs:
            del self._items[call_id]
            return self._open.complete(_refused(item, self._status(call_id), "", output), turn_id, at)
        if call is None or answered.success or item is not None:
            return []
        if call.name == "apply_patch":
            changes = self._named_in(call.arguments)
            return self._open.complete(items.file_change(self._new_id(call_id), changes, "failed"), turn_id, at)
        argv = argv_of(call)
        if argv is None:
            return []
        item = items.command(self._new_id(call_id), argv, self.cwd)
        return self._open.complete(_refused(item, "failed", output), turn_id, at)

    def end_turn(self, turn_id: str, at: float) -> list[Notice]:
        """Whatever is open has been cut off, but for commands that outlive their turn."""
        notices: list[Notice] = []
        for call_id, item in tuple(self._items.items()):
            if item["type"] == "commandExecution" and item["processId"] is not None and call_id in self._outputs:
                continue
            del self._items[call_id]
            output = self._outputs.pop(call_id, None)
            text = "" if output is None else output.so_far()
            notices += self._open.complete(_refused(item, self._status(call_id), text, INTERRUPTED), turn_id, at)
        self._calls.clear()
        self._decided.clear()
        return notices

    # -- parts

    def _new_id(self, call_id: str) -> str:
        self._last[call_id] = item_id = self._ids.call(call_id)
        return item_id

    def _begin(self, call_id: str, item: Json, turn_id: str, at: float) -> list[Notice]:
        self._items[call_id] = item
        return self._open.begin(item, turn_id, at)

    def _go_on(self, call_id: str, item: Json, turn_id: str, at: float) -> list[Notice]:
        """Nobody is told twice that it begins: the question has done so."""
        self._calls.pop(call_id, None)
        known = call_id in self._items
        self._items[call_id] = item
        if known:
            self._open.update(item)
            return []
        return self._open.begin(item, turn_id, at)

    def _status(self, call_id: str) -> str:
        decided = self._decided.pop(call_id, None)
        refused = decided is not None and decided.decision in ("denied", "abort") and decided.source == "client"
        return "declined" if refused else "failed"

    def _named_in(self, arguments: str) -> list[Json]:
        """The files that a patch names which was never applied."""
        try:
            given: Any = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError):
            return []
        values = cast(dict[str, Any], given).values() if isinstance(given, dict) else ()
        patch = next((text for text in values if isinstance(text, str)), "")
        named = [(os.path.normpath(os.path.join(self.cwd, path)), word) for word, path in patched_files(patch)]
        return [{"path": path, "kind": _KINDS[word], "diff": ""} for path, word in sorted(named)]


def patched_files(patch: str) -> list[tuple[str, str]]:
    """What a patch says that it does, and to which file."""
    return [(word, path.rstrip()) for word, path in _PATCHED.findall(patch)]


def _refused(item: Json, status: str, output: str, error: str = "") -> Json:
    """As it stands at its end, of something that did not run to its own."""
    match item["type"]:
        case "commandExecution":
            return {**item, "status": status, "aggregatedOutput": output or None}
        case "mcpToolCall":
            return {**item, "status": "failed", "error": {"message": output or error or "the tool was not called"}}
        case _:
            return {**item, "status": status}
