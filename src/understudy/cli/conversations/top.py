"""`understudy top`: shows what runs, waits and costs now, in all conversations of this home and in all processes."""

import json
import os
import select
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.live import Live
from rich.table import Table
from rich.text import Text

from understudy.cli.stored import home, open_stored, rfc3339
from understudy.cli.tell.listing import ago, unique_length
from understudy.cli.tell.terminal import cost_text, one_line, open_console, seconds_text, tokens_text
from understudy.cli.waiting import wait_for
from understudy.errors import Damaged, UnknownConversation
from understudy.protocol.records import TurnStarted
from understudy.store.log import GoingOn, Holder, Listed, Status, Store
from understudy.store.opening import store_exists

PAGE = 200
LONGEST_COMMAND = 60
LOOKED_THROUGH = 1000  # records
WHOLE_LINES = 10_000  # columns: a reader of a pipe gets whole lines
ROOM_FOR_TIMES = 100  # columns from which on times are shown, and then folders:
ROOM_FOR_FOLDERS = 120
COLUMNS = ("ID", "STATUS", "FOR", "LAST", "TOKENS", "COST", "WHAT", "FOLDER", "TITLE")
SHARES = {"WHAT": 3, "FOLDER": 2, "TITLE": 3}
_ORDER: dict[Status, int] = {"waiting": 0, "running": 1, "idle": 2}
_STYLES: dict[Status, str] = {"running": "green", "waiting": "yellow", "idle": "dim"}


class Busy(msgspec.Struct, frozen=True):
    """A conversation in which something runs, or that waits for a person."""

    listed: Listed
    status: Status  # `idle`: only commands run that outlive their turns
    going_on: GoingOn
    holder: Holder | None
    begun: float | None  # when its turn began; None: there is none, or it began too long ago

    @property
    def for_seconds(self) -> float | None:
        return None if self.begun is None else max(0.0, time.time() - self.begun)


class Sight(msgspec.Struct, frozen=True):
    at: float
    busy: tuple[Busy, ...]
    ids: tuple[str, ...]  # of all conversations, for shortening ids

    @property
    def tokens(self) -> int:
        return sum(each.listed.summary.tokens or 0 for each in self.busy)

    @property
    def cost_usd(self) -> float | None:
        """None if the cost of one of them is unknown."""
        costs = [each.listed.summary.cost_usd for each in self.busy if each.listed.summary.tokens]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def count(self, status: Status) -> int:
        return sum(each.status == status for each in self.busy)

    @property
    def commands(self) -> int:
        return sum(len(each.going_on.commands) for each in self.busy)


def run(options: Namespace) -> int:
    if options.json:
        print(json.dumps(_as_json(look()), indent=2))
    elif options.once or not sys.stdout.isatty():
        console = open_console()
        sight = look()
        console.print(_head(sight))
        if sight.busy:
            if not console.is_terminal:
                console.width = WHOLE_LINES
            console.print(_table(sight, console.width))
    else:
        with suppress(KeyboardInterrupt):
            _watch(options.every)
    return 0


def look() -> Sight:
    return wait_for(_look) if store_exists(home()) else Sight(time.time(), (), ())


async def _look() -> Sight:
    async with open_stored() as log:
        found = [busy for archived in (False, True) for busy in await _busy(log, archived=archived)]
        found.sort(key=lambda each: (_ORDER[each.status], -each.listed.updated_at))
        return Sight(time.time(), tuple(found), tuple(await log.ids()))


async def _busy(log: Store, *, archived: bool) -> list[Busy]:
    found: list[Busy] = []
    cursor: str | None = None
    while True:
        page = await log.list(PAGE, cursor, archived=archived)
        found += [busy for listed in page.rows if (busy := await _of(log, listed)) is not None]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def _of(log: Store, listed: Listed) -> Busy | None:
    """None if nothing happens: what a dead process left does not run any more, but a question still waits."""
    summary = listed.summary
    if summary.status == "idle" and not summary.running and summary.turn is None:
        return None
    holder = await log.holder(listed.conversation_id, identify=True)
    if holder is None and not summary.pending:
        return None
    begun = None if summary.turn is None else await _beginning(log, listed, summary.turn)
    if holder is None:
        return Busy(listed, "waiting", GoingOn(), None, begun)
    return Busy(listed, summary.status, GoingOn(summary.turn, summary.running), holder, begun)


async def _beginning(log: Store, listed: Listed, turn: str) -> float | None:
    """Searched only in the last records, because it is asked again and again."""
    try:
        entries = await log.read(listed.conversation_id, max(0, listed.last_seq - LOOKED_THROUGH))
    except (Damaged, UnknownConversation):
        return None
    return next((entry.at for entry in entries if entry.turn == turn and isinstance(entry.record, TurnStarted)), None)


# -- for programs


def _as_json(sight: Sight) -> dict[str, Any]:
    totals = {
        "running": sight.count("running"),
        "waiting": sight.count("waiting"),
        "commands": sight.commands,
        "tokens": sight.tokens,
        "cost_usd": None if sight.cost_usd is None else round(sight.cost_usd, 6),
    }
    return {"at": rfc3339(sight.at), "totals": totals, "conversations": [_row_json(each) for each in sight.busy]}


def _row_json(each: Busy) -> dict[str, Any]:
    summary = each.listed.summary
    held = {} if each.holder is None else {name: getattr(each.holder, name) for name in ("process", "host")}
    return {
        "conversation_id": each.listed.conversation_id,
        "title": summary.title,
        "status": each.status,
        "owner": each.listed.owner,
        "cwd": summary.cwd,
        "model": summary.model,
        "updated_at": rfc3339(each.listed.updated_at),
        "seconds": None if each.for_seconds is None else round(each.for_seconds, 3),
        "pending": list(summary.pending),
        "running": each.going_on.shown(),
        "tokens": summary.tokens,
        "cost_usd": None if summary.cost_usd is None else round(summary.cost_usd, 6),
        "held_by": held or None,
    }


# -- for people


def _head(sight: Sight) -> Text:
    counts = [f"{sight.count('running')} running", f"{sight.count('waiting')} waiting for an answer"]
    if sight.commands:
        counts.append(f"{sight.commands} command{'s' if sight.commands > 1 else ''} in the background")
    if sight.tokens:
        counts.append(", ".join(text for text in (f"{tokens_text(sight.tokens)} tokens", cost_text(sight.cost_usd)) if text))
    return Text(" · ".join(counts), "bold")


def _table(sight: Sight, width: int) -> Table:
    """Narrow terminals get fewer columns, and columns without any value are left out."""
    length = unique_length([each.listed.conversation_id for each in sight.busy], sight.ids)
    rows = [_cells(each, sight.at, length) for each in sight.busy]
    left_out = {"LAST"} if width < ROOM_FOR_TIMES else set[str]()
    left_out |= {"FOLDER"} if width < ROOM_FOR_FOLDERS else set()
    table = Table(box=None, pad_edge=False, header_style="dim")
    shown: list[int] = []
    for at, name in enumerate(COLUMNS):
        widest = max(cell_len(row[at].plain) for row in rows)
        if name in left_out or widest == 0:
            continue
        shown.append(at)
        share = None if width == WHOLE_LINES else SHARES.get(name)
        table.add_column(
            name,
            justify="right" if name in ("FOR", "LAST", "TOKENS", "COST") else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=share,
            min_width=None if share else max(widest, len(name)),
        )
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    return table


def _cells(each: Busy, now: float, length: int) -> tuple[Text, ...]:
    summary, seconds = each.listed.summary, each.for_seconds
    return (
        Text(each.listed.conversation_id[:length], "cyan"),
        Text(each.status, _STYLES[each.status]),
        Text("" if seconds is None else seconds_text(seconds)),
        Text(ago(now - each.listed.updated_at)),
        Text(tokens_text(summary.tokens)),
        Text(cost_text(summary.cost_usd)),
        Text(_what(each)),
        Text(one_line(_folder(summary.cwd))),
        Text(one_line(summary.title)),
    )


def _what(each: Busy) -> str:
    parts: list[str] = []
    if questions := len(each.listed.summary.pending):
        alone = "" if each.holder is not None else ", and nobody runs its turn"
        parts.append(f"asks {'a question' if questions == 1 else f'{questions} questions'}{alone}")
    elif each.status == "running":
        parts.append(f"works with {one_line(each.listed.summary.model)}")
    parts += [f"runs {one_line(command.command)[:LONGEST_COMMAND]}" for command in each.going_on.commands]
    return "; ".join(parts)


def _folder(folder: str) -> str:
    own = os.path.expanduser("~")
    return "~" + folder[len(own) :] if folder == own or folder.startswith(own + "/") else folder


def _watch(every: float) -> None:
    """Until `q` or Ctrl-C."""
    console = open_console()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen(look(), every, console.width), refresh=True)
            if pressed(every):
                return


def _screen(sight: Sight, every: float, width: int) -> Table:
    screen = Table.grid(expand=True)
    screen.add_row(_head(sight))
    screen.add_row(_table(sight, width) if sight.busy else Text("Nothing runs, and nobody waits.", "dim"))
    hint = "understudy approvals answers what is asked · " if sight.count("waiting") else ""
    screen.add_row(Text(f"\n{hint}q ends · every {every:g} s", "dim"))
    return screen


@contextmanager
def _keys() -> Generator[Callable[[float], bool]]:
    """Gives a function that waits for a key; true if it is one that ends. Keys count without Enter; the terminal is restored
    afterwards."""
    if not sys.stdin.isatty():
        yield lambda seconds: bool(time.sleep(seconds))
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0] and os.read(descriptor, 1) in (b"q", b"Q", b"\x04", b""):
                return True
        return False

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
