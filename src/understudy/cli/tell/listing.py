"""The list of conversations, on a terminal of any width and in a pipe. Ids are never cut so short that they become ambiguous."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from understudy.cli.tell.terminal import cost_text, one_line, open_console, shorten, tokens_text
from understudy.store.log import GoingOn, Listed, Status

SHORTEST_ID = 8
_GAP = 2
_SHORTEST_TITLE = 24
_LONGEST_FOLDER = 32
_STYLES: dict[Status, str] = {"running": "green", "waiting": "yellow", "idle": "dim"}


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    active: str
    status: Status
    messages: str
    tokens: str
    cost: str
    folder: str
    title: str


_OfRow = Callable[[_Row], str]


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cell: _OfRow
    width: int
    style: _OfRow = lambda _: ""
    right: bool = False


def print_list(rows: Sequence[tuple[Listed, Status, GoingOn]], all_ids: Sequence[str]) -> None:
    console = open_console()
    length = unique_length([listed.conversation_id for listed, _, _ in rows], all_ids)
    now = time.time()
    told = [_row(listed, status, going_on, length, now) for listed, status, going_on in rows]
    columns, title_width = _fit(told, console.width if console.is_terminal else None)
    below = title_width is None  # there is no room for titles beside the rest
    _print_line(console, [(column.head, column, "dim") for column in columns], "" if below else "TITLE", "dim")
    for row in told:
        title = row.title if title_width is None else shorten(row.title, title_width)
        cells = [(column.cell(row), column, column.style(row)) for column in columns]
        _print_line(console, cells, "" if below else title, "")
        if below:
            console.print(Text(f"  {shorten(row.title, max(console.width - 2, 1))}"), soft_wrap=True)


def unique_length(shown: Sequence[str], everything: Sequence[str]) -> int:
    """How many characters of the ids distinguish each from all others, including archived ones. At least eight."""
    wanted = set(shown)
    ordered = sorted(everything)
    length = SHORTEST_ID
    for one, other in pairwise(ordered):
        if one in wanted or other in wanted:
            length = max(length, next(place for place in range(36) if one[place] != other[place]) + 1)
    return length + 1 if length < 36 and any(one[length - 1 : length] == "-" for one in shown) else length


def _row(listed: Listed, status: Status, going_on: GoingOn, length: int, now: float) -> _Row:
    summary = listed.summary
    count = len(going_on.commands)
    commands = f"[{count} command{'s' if count > 1 else ''} running] " if count else ""
    return _Row(
        listed.conversation_id[:length],
        ago(now - listed.updated_at),
        status,
        str(summary.message_count),
        tokens_text(summary.tokens),
        cost_text(summary.cost_usd),
        one_line(_short_folder(summary.cwd)),
        commands + one_line(summary.title),
    )


def _fit(rows: Sequence[_Row], width: int | None) -> tuple[list[_Column], int | None]:
    """The columns that fit, and the width that is left for the title: None if it gets a line of its own."""

    def widest(head: str, cell: _OfRow) -> int:
        return max(cell_len(head), *(cell_len(cell(row)) for row in rows))

    def column(head: str, cell: _OfRow, style: _OfRow = lambda _: "", *, right: bool = False) -> _Column:
        return _Column(head, cell, widest(head, cell), style, right)

    needed = [
        column("ID", lambda row: row.id, lambda _: "cyan"),
        column("LAST ACTIVE", lambda row: row.active),
        column("STATUS", lambda row: row.status, lambda row: _STYLES[row.status]),
    ]
    messages = column("MESSAGES", lambda row: row.messages, right=True)
    spent = [column("TOKENS", lambda row: row.tokens, right=True)] if any(row.tokens for row in rows) else []
    spent += [column("COST", lambda row: row.cost, right=True)] if any(row.cost for row in rows) else []
    folder = column("FOLDER", lambda row: row.folder)
    if width is None:  # a reader of a pipe wants whole lines
        return [*needed, messages, *spent, folder], 1_000_000
    folder = _Column("FOLDER", lambda row: shorten(row.folder, _LONGEST_FOLDER), min(folder.width, _LONGEST_FOLDER))
    for columns in ([*needed, messages, *spent, folder], [*needed, messages, *spent], [*needed, messages], needed):
        left = width - sum(each.width + _GAP for each in columns)
        if left >= _SHORTEST_TITLE:
            return columns, left
    return needed, None


def _print_line(console: Console, cells: Sequence[tuple[str, _Column, str]], last: str, last_style: str) -> None:
    line = Text()
    for text, column, style in cells:
        blank = " " * (column.width - cell_len(text))
        line.append(blank + text if column.right else text + blank, style)
        line.append(" " * _GAP)
    line.append(last, last_style)
    line.rstrip()
    console.print(line, soft_wrap=True)


def ago(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


def _short_folder(folder: str) -> str:
    home = os.path.expanduser("~")
    return "~" + folder[len(home) :] if folder == home or folder.startswith(home + "/") else folder
