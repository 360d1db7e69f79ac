"""Shows a conversation in the chat: answers as markdown, tool calls folded; what is in progress is kept for the live part.

Numbers each text that was shown only in part, so that all of it can be opened.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

from understudy.cli.chat.markdown import Block, CodeRest, MarkdownStream
from understudy.cli.tell.telling import CleanLines, Teller, count, diff_of, diff_style
from understudy.cli.tell.terminal import clean_lines, one_line, seconds_text, shorten
from understudy.protocol.records import CommandEnded, Entry, ToolCallEnded
from understudy.protocol.records.files import AddFile, DeleteFile, FileChange, UpdateFile
from understudy.text import make_visible, quote_command


@dataclass(frozen=True, slots=True)
class Fold:
    number: int
    seq: int  # the record that contains all of it
    title: str


class Folds:
    """Those of one conversation. Keeps only positions in the log, because outputs may be large and many."""

    def __init__(self) -> None:
        self._folds: list[Fold] = []
        self._opened = 0  # opened by the key, counted from the last one

    def add(self, seq: int, title: str) -> Fold:
        fold = Fold(len(self._folds) + 1, seq, title)
        self._folds.append(fold)
        self._opened = 0
        return fold

    def find(self, number: int) -> Fold | None:
        return self._folds[number - 1] if 0 < number <= len(self._folds) else None

    def next_to_open(self) -> Fold | None:
        """The last one; when asked again, the one before it."""
        if self._opened >= len(self._folds):
            return None
        self._opened += 1
        return self._folds[-self._opened]

    def __len__(self) -> int:
        return len(self._folds)


HEAD, TAIL = 3, 2  # lines that are shown of a longer output
DIFF_LINES = 30
MOST_TYPED_LINES = 30
LIVE_LINES = 3
WIDEST = 110  # columns of running text; longer lines are hard to read
LONGEST_TITLE = 400


class UnderWay:
    """A command or call that has begun and not ended."""

    def __init__(self, mark: str, title: str, *, outside: bool = False) -> None:
        self.mark = mark
        self.title = title
        self.outside = outside
        self.session: int | None = None
        self.printed = False
        self.began = time.monotonic()
        self.last_lines: deque[str] = deque(maxlen=LIVE_LINES)
        self._streams: dict[str, CleanLines] = {}

    def feed(self, stream: str, chunk: bytes) -> None:
        for line in self._streams.setdefault(stream, CleanLines()).feed(chunk):
            if line.strip():
                self.last_lines.append(line.expandtabs(8))


class ChatTeller(Teller):
    """`seq` is the record being shown; `call_id` the call that it belongs to, if any."""

    def __init__(self, console: Console, folds: Folds, *, cwd: str, has_live_part: bool = True) -> None:
        """`has_live_part`: what is in progress is visible there, and printed when it ends; otherwise its beginning is printed,
        too."""
        super().__init__(console, cwd=cwd)
        self._has_live_part = has_live_part
        self._begun = True  # a header was printed before it
        self.under_way: dict[str, UnderWay] = {}
        self.seq = 0
        self.call_id = ""
        self.shows_all = False  # fold nothing
        self._folds = folds
        self._answer: MarkdownStream | None = None
        self._answer_begun = False
        self._thought = ""

    def expect(self, entry: Entry, title: str) -> None:
        """Only the end of a command or call comes next, without its beginning, which would say what it was."""
        self.seq = entry.seq
        match entry.record:
            case CommandEnded(call_id=call_id):
                self.under_way[call_id] = UnderWay("$ ", title)
            case ToolCallEnded(call_id=call_id):
                self.call_id = call_id
                self.under_way[call_id] = UnderWay("⚙ ", title)
            case _:
                pass

    # -- words

    def user(self, text: str) -> None:
        """What was typed; of a long paste, its beginning and end."""
        lines = clean_lines(text.strip("\n"))
        if len(lines) <= MOST_TYPED_LINES or self.shows_all:
            super().user(text)
            return
        self._gap()
        self._folded([Text(line, "bold") for line in lines], "a message", first="❯ ", indent="  ")

    def message(self, text: str) -> None:
        if self._answer is None:
            self.message_delta(text)
        self._end_answer()

    def message_delta(self, text: str) -> None:
        if self._answer is None:
            self._answer, self._answer_begun = MarkdownStream(), False
        self._print_blocks(self._answer.feed(text))

    def withdraw(self) -> None:
        """Parts of an answer that were shown no longer count."""
        if self._answer is not None:
            self._end_answer()
            self.console.print(Text("  └ withdrawn: the answer begins anew", "dim"))
        self._thought = ""

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._print_blocks(answer.finish())

    def _print_blocks(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if not isinstance(block, CodeRest):
                self._gap()
            for line in self._lines_of(block):
                first = ("  ", "") if self._answer_begun else ("● ", "bold magenta")
                self._answer_begun = True
                self.console.print(Text.assemble(first, line), soft_wrap=True)

    def _lines_of(self, block: Block) -> list[Text]:
        """As they fit the terminal, without blanks at the end of each row."""
        options = self.console.options.update(width=max(min(self.console.width, WIDEST) - 2, 10))
        lines = self.console.render_lines(block, options, pad=False)
        texts = [_as_text(line) for line in lines]
        while texts and not texts[0].plain:
            texts.pop(0)
        while texts and not texts[-1].plain:
            texts.pop()
        return texts

    def thought_delta(self, text: str) -> None:
        self._thought += text

    def thought(self, text: str) -> None:
        self._thought = ""
        lines = clean_lines(text.strip())
        if lines:
            self._gap()
            self._folded([Text(line, "dim italic") for line in lines], "thoughts", first="○ ", indent="  ")

    # -- what is under way

    def command(self, call_id: str, argv: Sequence[str], *, contained: bool | None = None) -> None:
        title = make_visible(quote_command(argv))
        self._begin(call_id, UnderWay("$ ", title, outside=contained is False))

    def output(self, call_id: str, stream: str, chunk: bytes) -> None:
        if call_id in self.under_way:
            self.under_way[call_id].feed(stream, chunk)

    def command_ended(self, call_id: str, stdout: str, stderr: str, exit_code: int, seconds: float, *, note: str = "") -> None:
        known = self.under_way.pop(call_id, None) or UnderWay("$ ", "a command")
        if not known.printed:
            self._head(known)
        parts = [part.rstrip("\n") for part in (stdout, stderr) if part.strip()]
        lines = [Text(line) for part in parts for line in clean_lines(part)]
        self._folded(lines, known.title)
        style = "green" if exit_code == 0 else "red"
        self.console.print(Text(f"  └ exit {exit_code}, {seconds:.2f} s" + (f", {note}" if note else ""), style))

    def tool(self, name: str, arguments: str) -> None:
        self._begin(self.call_id, UnderWay("⚙ ", one_line(f"{name} {arguments}")))

    def told(self, text: str, success: bool) -> None:
        known = self.under_way.pop(self.call_id, None)
        if known is not None and not known.printed:
            self._head(known)
        self._folded([Text(line) for line in clean_lines(text)], known.title if known else "")
        if not success:
            self.console.print(Text("  └ failed", "red"))

    def _begin(self, call_id: str, known: UnderWay) -> None:
        self.under_way[call_id] = known
        if not self._has_live_part:
            known.printed = True
            self._head(known)

    def leave_running(self, call_id: str) -> None:
        """The model continues while the command runs: show it now, and again with its output when it ends."""
        known = self.under_way.get(call_id)
        if known is not None and known.session is not None:
            if not known.printed:
                self._head(known)
            self.console.print(Text(f"  └ goes on, as session {known.session}", "dim"))

    def _head(self, known: UnderWay) -> None:
        """The heading of a command or call, shortened if very long: a question about it has shown all of it."""
        title = known.title
        if len(title) > LONGEST_TITLE and not self.shows_all:
            title = title[:LONGEST_TITLE] + "…"
        self._block(known.mark, "bold yellow", title)
        if known.outside:
            self.console.print(Text("  outside the sandbox", "yellow"))

    def _folded(self, lines: list[Text], title: str, *, first: str = "", indent: str = "  │ ") -> None:
        left_out = len(lines) - HEAD - TAIL
        if left_out > 1 and not self.shows_all:
            number = self._folds.add(self.seq, title).number
            more = Text(f"… {count(left_out, 'more line')} · /show {number}", "dim")
            lines = [*lines[:HEAD], more, *lines[-TAIL:]]
        for place, line in enumerate(lines):
            lead = first if first and place == 0 else indent
            if self.console.is_terminal and not self.shows_all:
                line.truncate(max(self.console.width - len(lead), 8), overflow="ellipsis")
            self.console.print(Text.assemble((lead, "dim"), line), soft_wrap=True)

    # -- patches

    def patch(self, changes: Mapping[str, FileChange]) -> None:
        for path, change in changes.items():
            self.change(path, change, DIFF_LINES)

    def change(self, path: str, change: FileChange, most: int, *, exact: bool = False) -> None:
        """`exact`: make invisible characters visible, for a person who has to decide about it."""
        verb, lines = diff_of(change)
        if exact:
            lines = _exact_lines(change)
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        moved = f" → {self._shown(change.move_path)}" if isinstance(change, UpdateFile) and change.move_path else ""
        title = f"{verb} {self._shown(path)}{moved} (+{added} -{removed})"
        self._block("± ", "bold yellow", title)
        self.diff(lines, title, most)

    def diff(self, lines: Sequence[str], title: str, most: int = DIFF_LINES) -> None:
        shown = lines if self.shows_all or len(lines) <= most + 1 else lines[:most]
        for line in shown:
            self.console.print(Text(f"  {line if self.shows_all else self._fit(line, 2)}", diff_style(line)), soft_wrap=True)
        if len(shown) < len(lines):
            number = self._folds.add(self.seq, title).number
            self.console.print(Text(f"  … {count(len(lines) - len(shown), 'more line')} · /show {number}", "dim"))

    def turn_diff(self, unified_diff: str) -> None:
        """What a turn has changed, file by file."""
        for path, lines in split_diff(unified_diff):
            added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
            title = f"{self._shown(path)} (+{added} -{removed})"
            self._block("± ", "bold yellow", title)
            self.diff(lines, title)

    def close(self) -> None:
        self._end_answer()
        self._thought = ""
        self.under_way = {call_id: known for call_id, known in self.under_way.items() if known.session is not None}
        super().close()

    # -- the live part

    def live(self, console: Console, most: int) -> list[Text]:
        """What is in progress, in at most `most` lines."""
        width = max(console.width - 1, 8)
        rows: list[Text] = []
        if self._thought.strip():
            last = [line for line in clean_lines(self._thought) if line.strip()][-LIVE_LINES:]
            rows += [Text(f"○ {shorten(line, width - 2)}", "dim italic") for line in last]
        block = None if self._answer is None else self._answer.unfinished()
        if block is not None:
            lines = self._lines_of(block)
            rows += [Text.assemble(("  " if self._answer_begun else "● ", "bold magenta"), line) for line in lines]
        for known in islice(self.under_way.values(), 6):
            rows.append(_under_way_row(known, width))
            rows += [Text(f"  │ {shorten(line, width - 4)}", "dim") for line in known.last_lines if known.session is None]
        return rows[-most:] if len(rows) > most else rows


def split_diff(unified_diff: str) -> list[tuple[str, list[str]]]:
    """The files with their hunks. Other lines of git are left out, unless there is nothing else."""
    files: list[tuple[str, list[str]]] = []
    in_hunk = False
    for line in clean_lines(unified_diff):
        if line.startswith("diff --git "):
            _, _, last = line.partition(" b/")
            files.append((last, []))
            in_hunk = False
        elif files and (in_hunk or line.startswith("@@")):
            in_hunk = True
            files[-1][1].append(line)
    return files


def _exact_lines(change: FileChange) -> list[str]:
    match change:
        case AddFile(content=content):
            sign, text = "+", content
        case DeleteFile(content=content):
            sign, text = "-", content
        case UpdateFile(unified_diff=diff):
            sign, text = "", diff
    return [sign + make_visible(line.expandtabs(8)) for line in text.removesuffix("\n").split("\n")]


def _under_way_row(known: UnderWay, width: int) -> Text:
    seconds = time.monotonic() - known.began
    since = f"  {seconds_text(float(int(seconds))).replace('.0', '')}" if seconds >= 1 else ""
    session = f"  session {known.session}" if known.session is not None else ""
    title = shorten(one_line(known.title), max(width - 2 - len(since) - len(session), 4))
    return Text.assemble((known.mark, "bold yellow"), (title, "bold"), (since + session, "dim"))


def _as_text(line: list[Segment]) -> Text:
    text = Text()
    for segment in line:
        text.append(segment.text, segment.style)
    text.rstrip()
    return text
