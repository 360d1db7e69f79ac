"""Shows a conversation to a person, step by step, live or afterwards."""

import codecs
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from rich.console import Console
from rich.text import Text

from understudy.cli.tell.terminal import Flow, clean_lines, one_line, shorten
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import TerminalText, make_visible, quote_command

HEAD_LINES = 12
DIFF_LINES = 60
LONGEST_ARGUMENTS = 300


class Teller:
    """Each step is a block of its own. After live deltas, the finished item adds only what is new."""

    def __init__(self, console: Console, *, cwd: str = "", head_lines: int = HEAD_LINES, diff_lines: int = DIFF_LINES) -> None:
        self.console = console
        self._cwd = cwd
        self._head_lines = head_lines
        self._diff_lines = diff_lines
        self._flow: Flow | None = None
        self._flow_kind = ""
        self._outputs: dict[str, _Output] = {}
        self._begun = False

    # -- words

    def user(self, text: str) -> None:
        self._whole("❯ ", text, style="bold", first_style="bold cyan")

    def message(self, text: str) -> None:
        if not self._finish("message"):
            self._whole("● ", text, first_style="bold magenta")

    def message_delta(self, text: str) -> None:
        self._more("message", text, "● ", style="", first_style="bold magenta")

    def thought(self, text: str) -> None:
        if not self._finish("thought"):
            self._whole("○ ", text, style="dim italic", first_style="dim")

    def thought_delta(self, text: str) -> None:
        self._more("thought", text, "○ ", style="dim italic", first_style="dim")

    def notice(self, text: str) -> None:
        self._whole("· ", text, style="dim", first_style="dim")

    def failure(self, text: str) -> None:
        self._whole("✗ ", text, style="red", first_style="bold red")

    # -- commands

    def command(self, call_id: str, argv: Sequence[str], *, contained: bool | None = None) -> None:
        self._block("$ ", "bold yellow", make_visible(quote_command(argv)))
        if contained is False:
            self.console.print(Text("  outside the sandbox", "yellow"))
        self._outputs[call_id] = _Output(self.console, self._head_lines)

    def output(self, call_id: str, stream: str, chunk: bytes) -> None:
        if call_id in self._outputs:
            self._outputs[call_id].feed(stream, chunk)

    def command_ended(self, call_id: str, stdout: str, stderr: str, exit_code: int, seconds: float, *, note: str = "") -> None:
        output = self._outputs.pop(call_id, None) or _Output(self.console, self._head_lines)
        if not output.fed:
            output.feed("stdout", stdout.encode("utf-8", "surrogatepass"))
            output.feed("stderr", stderr.encode("utf-8", "surrogatepass"))
        output.end()
        style = "green" if exit_code == 0 else "red"
        self.console.print(Text(f"  └ exit {exit_code}, {seconds:.2f} s" + (f", {note}" if note else ""), style))

    def tool(self, name: str, arguments: str) -> None:
        """A call of a tool that has no display of its own."""
        shown = one_line(arguments)
        self._block(
            "⚙ ", "bold yellow", f"{one_line(name)} {shown if len(shown) <= LONGEST_ARGUMENTS else shown[:LONGEST_ARGUMENTS] + '…'}"
        )

    def attempted_patch(self, text: str) -> None:
        """A patch that was not applied, as the model wrote it."""
        self._block("± ", "bold yellow", "apply_patch")
        output = _Output(self.console, self._head_lines)
        output.feed("stdout", text.encode("utf-8", "surrogatepass"))
        output.end()

    def told(self, text: str, success: bool) -> None:
        """What the model got for a call."""
        output = _Output(self.console, self._head_lines)
        output.feed("stdout", text.encode("utf-8", "surrogatepass"))
        output.end()
        if not success:
            self.console.print(Text("  └ failed", "red"))

    # -- patches

    def patch(self, changes: Mapping[str, FileChange]) -> None:
        for path, change in changes.items():
            self._file(path, change)

    def patch_ended(self, success: bool, reason: str) -> None:
        if success:
            self.console.print(Text("  └ applied", "green"))
        else:
            self.console.print(Text(f"  └ not applied: {one_line(reason)}", "red"))

    def _file(self, path: str, change: FileChange) -> None:
        verb, lines = diff_of(change)
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        moved = f" → {self._shown(change.move_path)}" if isinstance(change, UpdateFile) and change.move_path else ""
        self._block("± ", "bold yellow", f"{verb} {self._shown(path)}{moved} (+{added} -{removed})")
        for line in lines[: self._diff_lines]:
            self.console.print(Text(f"  {self._fit(line, 2)}", diff_style(line)))
        if len(lines) > self._diff_lines:
            self.console.print(Text(f"  … {count(len(lines) - self._diff_lines, 'more line')}", "dim"))

    # -- questions

    def question(self, text: str) -> None:
        """Further rows are indented more than our lines begin, so that no wrapped word can be mistaken for one of ours."""
        first, *rest = text.split("\n")
        self._gap()
        for mark, line in (("? ", first), *(("  ", line) for line in rest)):
            styles = ("bold", "bold yellow") if mark == "? " else ("yellow", "")
            flow = Flow(self.console, first=mark, indent="      ", style=styles[0], first_style=styles[1], break_words=True)
            flow.whole(line)

    def answer(self, decision: str, note: str = "") -> None:
        style = "green" if decision.startswith("approved") else "red"
        self.console.print(
            Text.assemble((f"  └ {one_line(decision.replace('_', ' '))}", style), (f" {one_line(note)}" if note else "", "dim"))
        )

    # -- the rest

    def plan(self, steps: Sequence[tuple[str, str]], explanation: str | None) -> None:
        marks = {"completed": ("☑", "green"), "in_progress": ("▸", "bold"), "pending": ("☐", "dim")}
        self._block("≡ ", "bold blue", "plan" + (f": {one_line(explanation)}" if explanation else ""))
        for step, status in steps:
            mark, style = marks.get(status, ("☐", "dim"))
            self.console.print(Text(f"  {mark} {one_line(step)}", style))

    def aside(self, text: str) -> None:
        """A line of ours about what happens around the conversation."""
        self._gap()
        self.console.print(Text(text, "dim"))

    def line(self, first: str, text: str) -> None:
        """Another such line, below the last."""
        self._flowing(first, text, "dim", "dim")

    def close(self) -> None:
        """Whatever was being written ends here."""
        self._end_flow()
        for output in self._outputs.values():
            output.end()
        self._outputs.clear()

    # -- how it is laid out

    def _gap(self) -> None:
        self._end_flow()
        if self._begun:
            self.console.print()
        self._begun = True

    def _block(self, mark: str, mark_style: str, title: str) -> None:
        self._gap()
        self._flowing(mark, title, "bold", mark_style)

    def _flowing(self, first: str, text: str, style: str, first_style: str) -> None:
        flow = Flow(self.console, first=first, indent="  ", style=style, first_style=first_style)
        flow.whole(text)

    def _whole(self, first: str, text: str, *, style: str = "", first_style: str = "") -> None:
        if not text.strip():
            return
        self._gap()
        self._flowing(first, text.strip("\n"), style, first_style)

    def _more(self, kind: str, text: str, first: str, *, style: str, first_style: str) -> None:
        if self._flow is None or self._flow_kind != kind:
            self._gap()
            self._flow = Flow(self.console, first=first, indent="  ", style=style, first_style=first_style)
            self._flow_kind = kind
        self._flow.feed(text)

    def _finish(self, kind: str) -> bool:
        """True if the text of that kind has been shown as it came."""
        shown = self._flow is not None and self._flow_kind == kind
        self._end_flow()
        return shown

    def _end_flow(self) -> None:
        if self._flow is not None:
            self._flow.end()
            self._flow = None

    def _shown(self, path: str) -> str:
        below = PurePath(path)
        if self._cwd and below.is_relative_to(self._cwd):
            below = below.relative_to(self._cwd)
        return make_visible(str(below))

    def _fit(self, line: str, indent: int) -> str:
        return shorten(line, self.console.width - indent) if self.console.is_terminal else line


class _Output:
    """What a command prints: its first lines, and how many more there were."""

    def __init__(self, console: Console, limit: int) -> None:
        self._console = console
        self._limit = limit
        self._lines = 0
        self._streams: dict[str, CleanLines] = {}
        self.fed = False

    def feed(self, stream: str, chunk: bytes) -> None:
        self.fed = self.fed or bool(chunk)
        for line in self._streams.setdefault(stream, CleanLines()).feed(chunk):
            self._show(line)

    def end(self) -> None:
        for stream in self._streams.values():
            if rest := stream.rest():
                self._show(rest)
        if self._lines > self._limit:
            self._console.print(Text(f"  │ … {count(self._lines - self._limit, 'more line')}", "dim"))
        self._lines = 0

    def _show(self, line: str) -> None:
        self._lines += 1
        if self._lines <= self._limit:
            line = line.expandtabs(8)
            if self._console.is_terminal:
                line = shorten(line, self._console.width - 4)
            self._console.print(Text.assemble(("  │ ", "dim"), line))


class CleanLines:
    """Turns bytes into whole, harmless lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._clean = TerminalText()
        self._line = ""

    def feed(self, chunk: bytes) -> list[str]:
        *lines, self._line = (self._line + self._clean.feed(self._decoder.decode(chunk))).split("\n")
        return lines

    def rest(self) -> str:
        line, self._line = self._line + self._clean.finish(), ""
        return line


def diff_of(change: FileChange) -> tuple[str, list[str]]:
    match change:
        case AddFile(content=content):
            return "add", [f"+{line}" for line in clean_lines(content)]
        case DeleteFile(content=content):
            return "delete", [f"-{line}" for line in clean_lines(content)]
        case UpdateFile(unified_diff=diff, move_path=target):
            return "update" if target is None else "move", clean_lines(diff)


def diff_style(line: str) -> str:
    match line[:1]:
        case "+":
            return "green"
        case "-":
            return "red"
        case "@":
            return "cyan"
        case _:
            return "default"


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
