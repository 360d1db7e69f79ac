"""Commands, patches and other calls as tool calls of ACP, from their question or beginning to their one end.

File changes become diffs of ACP. These hold whole texts if they are available, otherwise the lines around each change.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from understudy.engine.activity import steps as a
from understudy.engine.activity.fold import asked_about
from understudy.policy.question_text import question_text
from understudy.protocol import records as r
from understudy.protocol.items import FunctionCall
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.servers.acp.content import Json, output_content, question_content, text_content
from understudy.text import in_ticks, make_visible, quote_command

LARGEST_WHOLE = 512 * 1024  # bytes of a file that is shown as a whole
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline at end of file"


class Hunk(msgspec.Struct, frozen=True):
    old_start: int  # counted from 0
    new_start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def diff_content(changes: Mapping[str, FileChange], cwd: str, *, on_disk: bool) -> list[Json]:
    """`on_disk`: the files are about to be changed or just were, so their content can turn hunks into whole texts."""
    return [part for path in sorted(changes) for part in _parts(_absolute(path, cwd), changes[path], cwd, on_disk=on_disk)]


def locations(changes: Mapping[str, FileChange], cwd: str) -> list[Json]:
    return [_location(_absolute(path, cwd), changes[path]) for path in sorted(changes)]


def _location(path: str, change: FileChange) -> Json:
    hunks = read_hunks(change.unified_diff) if isinstance(change, UpdateFile) else []
    return {"path": path, "line": hunks[0].new_start + 1} if hunks else {"path": path}


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))


def _parts(path: str, change: FileChange, cwd: str, *, on_disk: bool) -> list[Json]:
    match change:
        case AddFile(content=content):
            return [_diff(path, None, content)]
        case DeleteFile(content=content):
            return [text_content(f"{in_ticks(path)} is deleted"), _diff(path, content, "")]
        case UpdateFile(unified_diff=diff, move_path=None):
            return _updated(path, path, diff, on_disk=on_disk)
        case UpdateFile(unified_diff=diff, move_path=str(moved)):
            target = _absolute(moved, cwd)
            return [
                text_content(f"{in_ticks(path)} is moved to {in_ticks(target)}"),
                *_updated(target, path, diff, on_disk=on_disk),
            ]
        case _:
            raise AssertionError(change)


def _updated(path: str, before: str, diff: str, *, on_disk: bool) -> list[Json]:
    hunks = read_hunks(diff)
    texts = _whole(before, path, hunks) if on_disk else None
    if texts is not None:
        return [_diff(path, *texts)]
    return [_diff(path, "".join(hunk.old), "".join(hunk.new)) for hunk in hunks]


def _diff(path: str, old: str | None, new: str) -> Json:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def _whole(before: str, after: str, hunks: list[Hunk]) -> tuple[str, str] | None:
    """The whole texts before and after the change, whichever of the two is on disk."""
    text = _read(before)
    if text is not None and (new := replace(text, [(hunk.old_start, hunk.old, hunk.new) for hunk in hunks])) is not None:
        return text, new
    text = text if before == after else _read(after)
    if text is not None and (old := replace(text, [(hunk.new_start, hunk.new, hunk.old) for hunk in hunks])) is not None:
        return old, text
    return None


def replace(text: str, hunks: list[tuple[int, tuple[str, ...], tuple[str, ...]]]) -> str | None:
    """The text with some lines replaced; None if it does not have those lines."""
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    made: list[str] = []
    at = 0
    for start, wanted, given in hunks:
        if start < at or tuple(lines[start : start + len(wanted)]) != wanted:
            return None
        made += lines[at:start]
        made += given
        at = start + len(wanted)
    return "".join([*made, *lines[at:]])


def read_hunks(diff: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    old: list[str] = []
    new: list[str] = []
    starts = 0, 0
    sides: tuple[list[str], ...] = ()
    for line in diff.split("\n"):
        head = _HUNK.match(line)
        if head is not None:
            if old or new:
                hunks.append(Hunk(*starts, tuple(old), tuple(new)))
            old, new, sides = [], [], ()
            starts = _start(head[1], head[2]), _start(head[3], head[4])
        elif line.startswith(_NO_NEWLINE):
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        elif line[:1] in (" ", "-", "+"):
            sides = {" ": (old, new), "-": (old,), "+": (new,)}[line[0]]
            for side in sides:
                side.append(line[1:] + "\n")
    if old or new:
        hunks.append(Hunk(*starts, tuple(old), tuple(new)))
    return hunks


def _start(line: str, count: str | None) -> int:
    return int(line) if count == "0" else int(line) - 1


def _read(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_WHOLE:
                return None
            return os.read(file, LARGEST_WHOLE).decode()
        finally:
            os.close(file)
    except (OSError, ValueError):
        return None


MOST_SHOWN = 64 * 1024  # characters of a command's output
LONGEST_TITLE = 300
_KINDS = {"read_file": "read", "view_image": "read", "list_files": "search", "search": "search"}

Calls = a.Command | a.Patch | a.ToolCall | a.Image | a.BudgetQuestion | a.UserQuestion


class _Shown(msgspec.Struct):
    """A tool call that has begun, with its content, which every update replaces."""

    tool_call_id: str
    content: list[Json]


class ToolCalls:
    def __init__(self, cwd: Callable[[], str]) -> None:
        self.live = False  # the updates are live, not replayed
        self._cwd = cwd
        self._last: dict[str, str] = {}  # the last tool call of each model call
        self._used: dict[str, int] = {}
        self._printing: dict[str, a.Command] = {}  # by tool call: commands whose new output is to be shown

    # -- questions

    def about_question(self, question: r.Question) -> Json:
        """The `toolCall` of a permission request."""
        about = self._about(asked_about(question))
        call_id = self._last.get(question.call_id, question.call_id)
        text = question_content(question_text(question, self._cwd()))
        return {**about, "toolCallId": call_id, "status": "pending", "content": [text, *about["content"]]}

    # -- beginnings

    def begin(self, item: Calls) -> Json:
        """A question's tool call begins before the question."""
        return self._begin(item, self._about(item), "in_progress" if item.running else "pending")

    def go_on(self, item: Calls) -> Json:
        """The question has already begun this tool call, so it is not begun again."""
        shown: _Shown = item.name
        shown.content = self._about(item)["content"] or shown.content
        return _update(shown, status="in_progress")

    # -- output of commands

    @property
    def prints(self) -> bool:
        """Whether some output was not shown yet."""
        return bool(self._printing)

    def printed(self, item: a.Command) -> None:
        self._printing[item.name.tool_call_id] = item

    def take_output(self) -> list[Json]:
        """Updates for all commands with new output since the last call, each with its whole output."""
        printing, self._printing = self._printing, {}
        told: list[Json] = []
        for tool_call_id, item in printing.items():
            if text := item.output.last():
                told.append(_update(_Shown(tool_call_id, [output_content(_shortened(text))])))
        return told

    # -- ends

    def end(self, item: Calls, ended: a.Ended) -> list[Json]:
        if item.missed and not isinstance(item, a.ToolCall):
            return []
        begun = [self._begin(item, self._about(item), "in_progress")] if item.missed else []
        shown: _Shown = item.name
        self._printing.pop(shown.tool_call_id, None)
        status = "completed" if ended.success and ended.how == "done" else "failed"
        if ended.how == "cut":
            if isinstance(item, a.Command) and (text := item.output.last()):
                shown.content = [output_content(_shortened(text))]
            shown.content = [*shown.content, text_content("interrupted")]
        elif ended.how in ("refused", "unfinished"):
            shown.content = [*shown.content, output_content(_shortened(ended.text))]
        elif isinstance(item, a.Command) and isinstance(ended.record, r.CommandEnded):
            record = ended.record
            shown.content = _printed_by(item, record)
            raw: Json = {"exit_code": record.exit_code, "seconds": record.duration}
            return [*begun, _update(shown, status=status, rawOutput=raw)]
        elif isinstance(ended.record, r.PatchEnded) and not ended.success:
            why = ended.record.stderr or ended.record.stdout or "the patch could not be applied"
            shown.content = [*shown.content, output_content(why)]
        elif isinstance(ended.record, r.ToolCallEnded):
            said = _shortened(ended.record.describe())
            shown.content = [output_content(said)] if said else []
        return [*begun, _update(shown, status=status)]

    def never_began(self, call: FunctionCall, output: str) -> list[Json]:
        """A call that was refused or could not be made."""
        argv = a.argv_of(call)
        about: Json
        if argv is not None:
            about = _command(argv, self._cwd())
        elif call.name == "apply_patch":
            about = {"title": "Edit files", "kind": "edit", "content": []}
        else:
            about = {"title": make_visible(call.name)[:LONGEST_TITLE], "kind": _KINDS.get(call.name, "other"), "content": []}
        item = a.Command(call_id=call.call_id)
        told = self._begin(item, about, "pending")
        item.name.content = [*item.name.content, output_content(_shortened(output))]
        return [told, _update(item.name, status="failed")]

    # -- parts

    def _about(self, item: Calls) -> Json:
        match item:
            case a.Command(argv=argv, cwd=cwd):
                return _command(argv, cwd)
            case a.Patch(changes=changes):
                return self._patch(changes)
            case a.ToolCall(server=server, tool=tool, arguments=arguments, read_only=read_only):
                kind = _KINDS.get(tool, "read" if read_only else "other")
                title = make_visible(f"{server}: {tool}")[:LONGEST_TITLE]
                return {"title": title, "kind": kind, "content": [], "rawInput": arguments or {}}
            case a.Image(path=path):
                return {"title": f"View {make_visible(path)}", "kind": "read", "content": [], "locations": [{"path": path}]}
            case a.BudgetQuestion(about=about) if about:
                return {"title": make_visible(f"A hook keeps this back: {about}")[:LONGEST_TITLE], "kind": "other", "content": []}
            case a.UserQuestion(questions=questions):
                return {"title": make_visible(questions[0].question)[:LONGEST_TITLE], "kind": "other", "content": []}
            case a.BudgetQuestion():
                return {"title": "Go on past the budget?", "kind": "other", "content": []}

    def _patch(self, changes: dict[str, FileChange]) -> Json:
        cwd = self._cwd()
        names = ", ".join(place["path"].removeprefix(f"{cwd}/") for place in locations(changes, cwd))
        return {
            "title": make_visible(f"Edit {names}")[:LONGEST_TITLE],
            "kind": "edit",
            "content": diff_content(changes, cwd, on_disk=self.live),
            "locations": locations(changes, cwd),
        }

    def _begin(self, item: Calls, about: Json, status: str) -> Json:
        """Each tool call has its own id here, because models reuse the ids of their calls."""
        call_id = item.call_id
        self._used[call_id] = count = self._used.get(call_id, 0) + 1
        self._last[call_id] = tool_call_id = call_id if count == 1 else f"{call_id}#{count}"
        item.name = _Shown(tool_call_id, about["content"])
        return {"sessionUpdate": "tool_call", "toolCallId": tool_call_id, "status": status, **about}


def _update(shown: _Shown, **members: Any) -> Json:
    status = {"status": members.pop("status")} if "status" in members else {}
    update = {"sessionUpdate": "tool_call_update", "toolCallId": shown.tool_call_id}
    return {**update, **status, "content": shown.content, **members}


def _printed_by(item: a.Command, ended: r.CommandEnded) -> list[Json]:
    text = _shortened(item.output.whole_or_last(ended))
    shown = [output_content(text)] if text else []
    return [*shown, text_content("timed out")] if ended.timed_out else shown


def _command(argv: Sequence[str], cwd: str) -> Json:
    line = quote_command(tuple(argv))
    return {
        "title": make_visible(line)[:LONGEST_TITLE],
        "kind": "execute",
        "content": [],
        "rawInput": {"command": list(argv), "cwd": cwd},
    }


def _shortened(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"[{len(text) - MOST_SHOWN} characters left out]\n{text[-MOST_SHOWN:]}"
