"""`…/diff`: what patches have changed in files, in one turn or in all turns.

It joins the diffs of several turns into one: a file before the first turn, and after the last. Pure, apart from reading the log.

Only hunks are known, not whole files. So a file is followed as pieces: runs of its original lines, and new lines. If a diff does
not fit what is known, because something else has changed the file in between, the file's diffs are shown one after the other.
"""

import asyncio
import re
from itertools import pairwise
from typing import Annotated

import msgspec

from understudy.engine.handle import Handle
from understudy.protocol.records import DiffChanged, TurnStarted, UndoEnded
from understudy.servers.http.guards import accepts
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.shapes import Diff
from understudy.servers.rest.visits import RestAnswer, Visit
from understudy.tools.patch.unified import changed_blocks

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\"
CONTEXT = 3
MOST_LINES = 200_000  # largest file that is followed


class FileDiff(msgspec.Struct, frozen=True):
    """One file of a diff."""

    old: str  # its earlier name; empty: it did not exist
    new: str  # its later name; empty: it no longer exists
    text: str


class FileLine(msgspec.Struct, frozen=True):
    """One line of a file as it is now. `origin`: its number in the original file; 0: it is new."""

    origin: int
    text: str


class DoesNotFit(Exception):
    """A diff contradicts the earlier diffs of the file."""


def split_files(diff: str) -> list[FileDiff]:
    parts = re.split(r"(?m)^(?=diff --git )", diff)
    return [_file(part) for part in parts if part.startswith("diff --git ")]


def _file(text: str) -> FileDiff:
    head = text.split("\n@@ ", 1)[0]
    names = {line[:4]: line[4:] for line in head.split("\n") if line.startswith(("--- ", "+++ "))}
    if len(names) < 2:  # no lines were changed: only its mode, or it is empty
        label = head.split("\n", 1)[0].removeprefix("diff --git ")
        half = label[2 : (len(label) - 1) // 2]  # a/NAME b/NAME
        return FileDiff("" if "\nnew file" in head else half, "" if "\ndeleted file" in head else half, text)
    old, new = names["--- "], names["+++ "]
    return FileDiff("" if old == "/dev/null" else old[2:], "" if new == "/dev/null" else new[2:], text)


def join_diffs(diffs: list[str]) -> str:
    """Join the diffs of turns, given in order."""
    chains: list[list[FileDiff]] = []
    for diff in diffs:
        for file in split_files(diff):
            name = file.old or file.new
            chain = next((each for each in reversed(chains) if (each[-1].new or each[-1].old) == name), None)
            if chain is None:
                chains.append([file])
            else:
                chain.append(file)
    return "".join(sorted(_join(chain) for chain in chains))


def _join(chain: list[FileDiff]) -> str:
    if len(chain) == 1:
        return chain[0].text
    try:
        return _joined(chain)
    except DoesNotFit:
        return "".join(file.text for file in chain)


def _joined(chain: list[FileDiff]) -> str:
    first, last = chain[0], chain[-1]
    if any("\nBinary files " in file.text or "\nold mode " in file.text or "\n@@ " not in file.text for file in chain):
        raise DoesNotFit
    pieces = _Pieces(begins_empty=not first.old)
    for before, after in pairwise(chain):
        if before.new != after.old:
            raise DoesNotFit
    for file in chain:
        pieces.apply(file.text)
    hunks = pieces.hunks()
    if not hunks and first.old == last.new:
        return ""
    head = f"diff --git a/{first.old or last.new or first.new} b/{last.new or first.old or first.new}\n"
    if not first.old and not last.new:
        return ""
    if not first.old:
        head += _line_of(first.text, "new file mode")
    if not last.new:
        head += _line_of(last.text, "deleted file mode")
    return (
        f"{head}--- {f'a/{first.old}' if first.old else '/dev/null'}\n+++ {f'b/{last.new}' if last.new else '/dev/null'}\n{hunks}"
    )


def _line_of(text: str, beginning: str) -> str:
    return next((f"{line}\n" for line in text.split("\n") if line.startswith(beginning)), "")


class _Pieces:
    """A file as it is now: its lines up to the last one that a diff has named. Unnamed lines follow."""

    def __init__(self, *, begins_empty: bool) -> None:
        self._now: list[FileLine] = []
        self._before: dict[int, str] = {}  # known lines of the original file
        self._named = 0  # original lines that are or were in `_now`
        self._ends = begins_empty  # the original file has no further lines

    def apply(self, text: str) -> None:
        """Raises `DoesNotFit`."""
        shift = 0
        for start, removed, lines in _hunks(text):
            at = (start - 1 if removed else start) + shift
            added = self._apply_hunk(at, lines)
            shift += added

    def _apply_hunk(self, at: int, lines: list[str]) -> int:
        self._reach(at)
        grown = 0
        for line in lines:
            mark, words = line[0], line[1:]
            if mark == "+":
                self._now.insert(at, FileLine(0, words))
                at += 1
                grown += 1
                continue
            self._reach(at + 1)
            known = self._now[at]
            if known.origin and known.origin not in self._before:
                self._before[known.origin] = words
                self._now[at] = FileLine(known.origin, words)
            elif known.text != words:
                raise DoesNotFit
            if mark == "-":
                del self._now[at]
                grown -= 1
            else:
                at += 1
        return grown

    def _reach(self, count: int) -> None:
        if count > MOST_LINES:
            raise DoesNotFit
        while len(self._now) < count:
            if self._ends:
                raise DoesNotFit
            self._named += 1
            self._now.append(FileLine(self._named, ""))

    def hunks(self) -> str:
        """The hunks from the original file to the present one, with as much context as is known."""
        told = self._told()
        changed = [number for number, (mark, _, _) in enumerate(told) if mark != " "]
        groups: list[tuple[int, int]] = []
        for number in changed:
            begin, end = max(0, number - CONTEXT), min(len(told), number + CONTEXT + 1)
            if groups and begin <= groups[-1][1]:
                groups[-1] = groups[-1][0], end
            else:
                groups.append((begin, end))
        return "".join(_write(told, *self._known_part(told, *group)) for group in groups)

    def _told(self) -> list[tuple[str, int, str]]:
        """Every line in a diff's form: its mark, its original number, its text.

        Between two lines that no diff has named, the text is compared again: a later turn may have restored what an earlier one
        removed.
        """
        told: list[tuple[str, int, str]] = []
        before = 1
        now: list[str] = []
        for line in [*self._now, FileLine(self._named + 1, "")]:
            if not line.origin or line.origin in self._before:
                now.append(line.text)
                continue
            told += _compare([(number, self._before[number]) for number in range(before, line.origin)], now)
            if line.origin <= self._named:
                told.append((" ", line.origin, line.text))
            before, now = line.origin + 1, []
        return told

    def _known_part(self, told: list[tuple[str, int, str]], begin: int, end: int) -> tuple[int, int]:
        """The range without unknown lines at its edges. Raises `DoesNotFit` if there are unknown lines between two changes."""
        changed = [number for number in range(begin, end) if told[number][0] != " "]
        unknown = [number for number in range(begin, end) if told[number][0] == " " and told[number][1] not in self._before]
        if any(changed[0] < number < changed[-1] for number in unknown):
            raise DoesNotFit
        begin = max([begin, *(number + 1 for number in unknown if number < changed[0])])
        return begin, min([end, *(number for number in unknown if number > changed[-1])])


def _compare(before: list[tuple[int, str]], now: list[str]) -> list[tuple[str, int, str]]:
    told: list[tuple[str, int, str]] = []
    at = 0
    for block in changed_blocks([text for _, text in before], now):
        told += [(" ", *each) for each in before[at : block.old_start]]
        told += [("-", *each) for each in before[block.old_start : block.old_end]]
        told += [("+", 0, text) for text in now[block.new_start : block.new_end]]
        at = block.old_end
    return told + [(" ", *each) for each in before[at:]]


def _write(told: list[tuple[str, int, str]], begin: int, end: int) -> str:
    lines = told[begin:end]
    old = sum(mark != "+" for mark, _, _ in told[:begin])
    new = sum(mark != "-" for mark, _, _ in told[:begin])
    removed = sum(mark != "+" for mark, _, _ in lines)
    added = sum(mark != "-" for mark, _, _ in lines)
    head = f"@@ -{old + 1 if removed else old},{removed} +{new + 1 if added else new},{added} @@\n"
    return head + "".join(mark + text for mark, _, text in lines)


def _hunks(text: str) -> list[tuple[int, int, list[str]]]:
    """For each hunk its first line in the earlier file, its number of lines there, and its lines with line ends."""
    found: list[tuple[int, int, list[str]]] = []
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        head = _HUNK.match(lines[number])
        number += 1
        if head is None:
            continue
        left_old, left_new = int(head[2] or 1), int(head[4] or 1)
        removed, body = left_old, list[str]()
        while (left_old or left_new or lines[number : number + 1] == [_NO_NEWLINE_LINE]) and number < len(lines):
            line = lines[number]
            number += 1
            if line.startswith(_NO_NEWLINE):
                body[-1] = body[-1][:-1] + "\n" + line + "\n"
                continue
            left_old -= line[:1] in (" ", "-")
            left_new -= line[:1] in (" ", "+")
            body.append(line + "\n")
        found.append((int(head[1]), removed, body))
    return found


_NO_NEWLINE_LINE = "\\ No newline at end of file"


PAGE = 500


class DiffWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    turn: Annotated[str, msgspec.Meta(description="of this turn; without it: of all of them, as one diff")] | None = None


async def diff(visit: Visit, wanted: DiffWanted) -> RestAnswer:
    handle = await visit.find()
    by_turn, turns = await _diffs(handle)
    if wanted.turn is None:
        text = await asyncio.to_thread(join_diffs, list(by_turn.values()))
    elif wanted.turn in turns:
        text = by_turn.get(wanted.turn, "")
    else:
        raise NotThere("no such turn in this conversation; its events name them")
    accept = visit.asked.header(b"accept")
    if accept is not None and "application/json" in accept and not accepts(accept, "text/x-diff"):
        return RestAnswer(Diff(turn=wanted.turn, diff=text))
    return RestAnswer(text.encode(errors="replace"), headers=((b"content-type", b"text/x-diff; charset=utf-8"),))


async def _diffs(handle: Handle) -> tuple[dict[str, str], set[str]]:
    """The last diff of each turn that has one and was not taken back, in the order of the turns; and all turns."""
    found: dict[str, str] = {}
    turns: set[str] = set()
    after = 0
    while page := await handle.read(after, PAGE):
        for entry in page:
            match entry.record:
                case DiffChanged(unified_diff=text):
                    found[entry.turn] = text
                case TurnStarted(turn_id=turn):
                    turns.add(turn)
                case UndoEnded(undone=turn, complete=True):
                    found.pop(turn, None)
                case _:
                    pass
        after = page[-1].seq
        await asyncio.sleep(0)  # lets others be served
    return found, turns
