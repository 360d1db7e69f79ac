"""Commands, patches and other calls as tool calls of ACP: from the question or the beginning to the one end of each."""

import codecs
from collections.abc import Callable
from typing import Any

import msgspec

from understudy.policy.question_text import question_text
from understudy.policy.quoting import quote_command
from understudy.policy.visible import make_visible
from understudy.protocol.changes import FileChange
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
from understudy.servers.acp.content import Json, output_content, question_content, text_content
from understudy.servers.acp.diffs import diff_content, locations
from understudy.servers.exec_events import argv_of

MOST_SHOWN = 64 * 1024  # characters of a command's output
LONGEST_TITLE = 300
_KINDS = {"read_file": "read", "view_image": "read", "list_files": "search", "search": "search"}


class _Open(msgspec.Struct):
    """A tool call that has begun. `shown`: its content, which every update replaces."""

    tool_call_id: str
    shown: list[Json]
    lasts: bool = False  # a command that may outlive its turn
    running: bool = False
    output: "_Output | None" = None


class _Output:
    """What a command has printed so far, the end of it."""

    def __init__(self) -> None:
        self._decode = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self.text = ""

    def feed(self, delta: OutputDelta) -> None:
        self.text += self._decode[delta.stream].decode(delta.chunk)
        if len(self.text) > 2 * MOST_SHOWN:
            self.text = self.text[-MOST_SHOWN:]


class ToolCalls:
    def __init__(self, cwd: Callable[[], str]) -> None:
        self.live = False  # what is told happens now
        self._cwd = cwd
        self._open: dict[str, _Open] = {}  # by the id of the model's call
        self._last: dict[str, str] = {}  # the last tool call of a model's call
        self._used: dict[str, int] = {}
        self._calls: dict[str, FunctionCall] = {}  # of which no tool call tells yet
        self._budgets: set[str] = set()  # made-up calls that are questions about a budget

    def called(self, call: FunctionCall) -> None:
        self._calls[call.call_id] = call

    def id_of(self, call_id: str) -> str:
        return self._last.get(call_id, call_id)

    # -- questions

    def asked(self, question: Question) -> list[Json]:
        """The tool call that a question is about is there before the question."""
        if question.call_id in self._open:
            return []
        if isinstance(question, BudgetAsked):
            self._budgets.add(question.call_id)
        about = self._about(question)
        return [self._begin(question.call_id, "pending", about)]

    def about_question(self, question: Question) -> Json:
        """The `toolCall` of a permission request."""
        about = self._about(question)
        text = question_content(question_text(question, self._cwd()))
        return {**about, "toolCallId": self.id_of(question.call_id), "status": "pending", "content": [text, *about["content"]]}

    def _about(self, question: Question) -> Json:
        match question:
            case CommandApprovalAsked(command=argv, cwd=cwd):
                return _command(argv, cwd)
            case PatchApprovalAsked(changes=changes):
                return self._patch(changes)
            case ToolApprovalAsked():
                return _tool(question)
            case BudgetAsked():
                return {"title": "Go on past the budget?", "kind": "other", "content": []}

    def decided(self, decided: ApprovalDecided) -> list[Json]:
        """A question about a budget is no call of the model's, and over with its answer."""
        if decided.call_id not in self._budgets or decided.call_id not in self._open:
            return []
        self._budgets.discard(decided.call_id)
        approved = decided.decision in ("approved", "approved_for_session")
        return [self._end(decided.call_id, "completed" if approved else "failed")]

    # -- beginnings

    def command_started(self, started: CommandStarted) -> list[Json]:
        told = self._go_on(started.call_id, _command(started.command, started.cwd))
        found = self._open[started.call_id]
        found.output, found.lasts = _Output(), started.session is not None
        return told

    def patch_started(self, started: PatchStarted) -> list[Json]:
        return self._go_on(started.call_id, self._patch(started.changes))

    def tool_call_began(self, began: ToolCallBegan) -> list[Json]:
        return self._go_on(began.call_id, _tool(began))

    def image_viewed(self, call_id: str, path: str) -> list[Json]:
        about: Json = {"title": f"View {make_visible(path)}", "kind": "read", "content": [], "locations": [{"path": path}]}
        begun = self._go_on(call_id, about)
        return [*begun, self._end(call_id, "completed")]

    def output(self, delta: OutputDelta) -> str | None:
        """Takes it in; the call whose update is due."""
        found = self._open.get(delta.call_id)
        if found is None or found.output is None:
            return None
        found.output.feed(delta)
        return delta.call_id

    def output_so_far(self, call_id: str) -> Json | None:
        found = self._open.get(call_id)
        if found is None or found.output is None or not found.output.text:
            return None
        return _update(found.tool_call_id, content=[output_content(_shortened(found.output.text))])

    # -- ends

    def command_ended(self, ended: CommandEnded) -> list[Json]:
        told: list[Json] = []
        if ended.call_id not in self._open:
            if ended.started is None:
                return []
            told = self.command_started(ended.started)  # it began before all that is known here
        found = self._open[ended.call_id]
        gathered = "" if found.output is None else found.output.text
        apart = ended.stdout + ended.stderr
        text = _shortened(gathered if len(gathered) == len(apart) else apart)
        found.shown = [output_content(text)] if text else []
        if ended.timed_out:
            found.shown.append(text_content("timed out"))
        status = "completed" if ended.exit_code == 0 else "failed"
        return [*told, self._end(ended.call_id, status, rawOutput={"exit_code": ended.exit_code, "seconds": ended.duration})]

    def patch_ended(self, ended: PatchEnded) -> list[Json]:
        found = self._open.get(ended.call_id)
        if found is None:
            return []
        if not ended.success:
            found.shown = [*found.shown, output_content(ended.stderr or ended.stdout or "the patch could not be applied")]
        return [self._end(ended.call_id, "completed" if ended.success else "failed")]

    def tool_call_ended(self, ended: ToolCallEnded) -> list[Json]:
        told = [] if ended.call_id in self._open else self._go_on(ended.call_id, _tool(ended))
        said = _shortened(ended.describe())
        self._open[ended.call_id].shown = [output_content(said)] if said else []
        return [*told, self._end(ended.call_id, "failed" if ended.failed else "completed")]

    def answered(self, answered: ToolAnswered) -> list[Json]:
        """A call that never got going was refused, or could not be done. One that goes on is left open."""
        call_id, output = answered.output.call_id, answered.output.output
        call = self._calls.pop(call_id, None)
        found = self._open.get(call_id)
        if found is not None:
            if found.running:
                return []
            found.shown = [*found.shown, output_content(_shortened(output))]
            return [self._end(call_id, "failed")]
        if call is None or answered.success:
            return []
        argv = argv_of(call)
        about: Json
        if argv is not None:
            about = _command(argv, self._cwd())
        elif call.name == "apply_patch":
            about = {"title": "Edit files", "kind": "edit", "content": []}
        else:
            about = {"title": make_visible(call.name)[:LONGEST_TITLE], "kind": _KINDS.get(call.name, "other"), "content": []}
        return [self._begin(call_id, "pending", about), self._fail_with(call_id, output_content(_shortened(output)))]

    def end_turn(self) -> list[Json]:
        """Whatever is open has been cut off, but for commands that outlive their turn."""
        cut = [call_id for call_id, found in self._open.items() if not (found.lasts and found.running)]
        self._calls.clear()
        return [self._cut_off(call_id) for call_id in cut]

    # -- parts

    def _cut_off(self, call_id: str) -> Json:
        found = self._open[call_id]
        if found.output is not None and found.output.text:
            found.shown = [output_content(_shortened(found.output.text))]
        return self._fail_with(call_id, text_content("interrupted"))

    def _fail_with(self, call_id: str, why: Json) -> Json:
        found = self._open[call_id]
        found.shown = [*found.shown, why]
        return self._end(call_id, "failed")

    def _patch(self, changes: dict[str, FileChange]) -> Json:
        cwd = self._cwd()
        names = ", ".join(place["path"].removeprefix(f"{cwd}/") for place in locations(changes, cwd))
        return {
            "title": make_visible(f"Edit {names}")[:LONGEST_TITLE],
            "kind": "edit",
            "content": diff_content(changes, cwd, on_disk=self.live),
            "locations": locations(changes, cwd),
        }

    def _go_on(self, call_id: str, about: Json) -> list[Json]:
        """Nobody is told twice that it begins: the question has done so."""
        self._calls.pop(call_id, None)
        found = self._open.get(call_id)
        if found is None:
            told = self._begin(call_id, "in_progress", about)
        else:
            found.shown = about["content"] or found.shown
            told = _update(found.tool_call_id, status="in_progress", content=found.shown)
        self._open[call_id].running = True
        return [told]

    def _begin(self, call_id: str, status: str, about: Json) -> Json:
        """Models give their calls the same ids again; here each has its own."""
        self._used[call_id] = count = self._used.get(call_id, 0) + 1
        tool_call_id = call_id if count == 1 else f"{call_id}#{count}"
        self._last[call_id] = tool_call_id
        self._open[call_id] = _Open(tool_call_id, about["content"])
        return {"sessionUpdate": "tool_call", "toolCallId": tool_call_id, "status": status, **about}

    def _end(self, call_id: str, status: str, **more: Any) -> Json:
        found = self._open.pop(call_id)
        return _update(found.tool_call_id, status=status, content=found.shown, **more)


def _update(tool_call_id: str, **members: Any) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": tool_call_id, **members}


def _command(argv: tuple[str, ...] | list[str], cwd: str) -> Json:
    line = quote_command(tuple(argv))
    return {
        "title": make_visible(line)[:LONGEST_TITLE],
        "kind": "execute",
        "content": [],
        "rawInput": {"command": list(argv), "cwd": cwd},
    }


def _tool(call: ToolCallBegan | ToolCallEnded | ToolApprovalAsked) -> Json:
    read_only = not isinstance(call, ToolApprovalAsked) and call.read_only
    kind = _KINDS.get(call.tool, "read" if read_only else "other")
    title = make_visible(f"{call.server}: {call.tool}")[:LONGEST_TITLE]
    return {"title": title, "kind": kind, "content": [], "rawInput": call.arguments or {}}


def _shortened(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"[{len(text) - MOST_SHOWN} characters left out]\n{text[-MOST_SHOWN:]}"
