"""Unified diffs of two texts, split at line feeds as git does. Pure, and limited in time.

Exact (Myers) if the texts differ little. If they differ a lot, lines that occur once in both divide them first; a part that is
still too large is shown as removed and added as a whole: longer than needed, but correct.
"""

from bisect import bisect_left
from io import StringIO

import msgspec

_NO_NEWLINE = "\\ No newline at end of file\n"
_MAX_EXACT = 400  # edits that the exact search looks for; its cost grows with their square
_MAX_WORK = 2_000_000  # steps for one diff
_STRIDE = 64  # equal lines are skipped this many at a time first


class Block(msgspec.Struct, frozen=True):
    """`old[old_start:old_end]` became `new[new_start:new_end]`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def unified_diff(old: str, new: str, *, context: int) -> str:
    """Hunks only, without file headers; empty if the texts are equal."""
    if old == new:
        return ""
    old_lines, new_lines = _split(old), _split(new)
    blocks = changed_blocks(old_lines, new_lines)
    return "".join([_hunk(old_lines, new_lines, group, context) for group in _groups(blocks, context)])


def changed_blocks(old: list[str], new: list[str]) -> list[Block]:
    """Where they differ, in order; everything between the blocks is equal."""
    budget = _MAX_WORK
    blocks: list[Block] = []
    open_ranges = [(0, len(old), 0, len(new))]
    while open_ranges:
        old_start, old_end, new_start, new_end = _trimmed(old, new, *open_ranges.pop())
        if old_start == old_end and new_start == new_end:
            continue
        whole = Block(old_start, old_end, new_start, new_end)
        if old_start == old_end or new_start == new_end or budget <= 0:
            blocks.append(whole)
            continue
        budget -= (old_end - old_start) + (new_end - new_start)
        anchors = _anchors(old, new, whole) if (old_end - old_start) + (new_end - new_start) > _MAX_EXACT else []
        if anchors:
            # The last range first, because the stack returns them in reverse.
            starts = [(old_start, new_start), *((i + 1, j + 1) for i, j in anchors)]
            ends = [*anchors, (old_end, new_end)]
            open_ranges += [(i, k, j, m) for (i, j), (k, m) in zip(reversed(starts), reversed(ends), strict=True)]
            continue
        exact, steps = _myers(old, new, whole, budget)
        budget -= steps
        blocks += exact
    return blocks


def _split(text: str) -> list[str]:
    return list(StringIO(text, newline="\n"))  # only at line feeds, which are kept; `splitlines` splits at many more characters


def _trimmed(
    old: list[str], new: list[str], old_start: int, old_end: int, new_start: int, new_end: int
) -> tuple[int, int, int, int]:
    common = min(old_end - old_start, new_end - new_start)
    while common >= _STRIDE and old[old_start : old_start + _STRIDE] == new[new_start : new_start + _STRIDE]:
        old_start, new_start, common = old_start + _STRIDE, new_start + _STRIDE, common - _STRIDE
    while common >= _STRIDE and old[old_end - _STRIDE : old_end] == new[new_end - _STRIDE : new_end]:
        old_end, new_end, common = old_end - _STRIDE, new_end - _STRIDE, common - _STRIDE
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start += 1
        new_start += 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end -= 1
        new_end -= 1
    return old_start, old_end, new_start, new_end


def _anchors(old: list[str], new: list[str], block: Block) -> list[tuple[int, int]]:
    """Pairs of lines that occur once on each side, as many as keep their order (patience diff)."""
    in_old = _single_places(old, block.old_start, block.old_end)
    in_new = _single_places(new, block.new_start, block.new_end)
    pairs = [(place, in_new[line]) for line, place in in_old.items() if line in in_new]
    return _longest_rising(pairs)


def _single_places(lines: list[str], start: int, end: int) -> dict[str, int]:
    places: dict[str, int] = {}
    repeated: set[str] = set()
    for place in range(start, end):
        line = lines[place]
        if line in places:
            repeated.add(line)
        else:
            places[line] = place
    return {line: place for line, place in places.items() if line not in repeated}


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence whose second members rise; the first members already do."""
    ends: list[int] = []
    end_pairs: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(end_pairs[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            end_pairs.append(number)
        else:
            ends[length] = place
            end_pairs[length] = number
    rising: list[tuple[int, int]] = []
    number = end_pairs[-1] if end_pairs else -1
    while number >= 0:
        rising.append(pairs[number])
        number = before[number]
    return rising[::-1]


def _myers(old: list[str], new: list[str], block: Block, budget: int) -> tuple[list[Block], int]:
    """The shortest edit script for the block, and the steps that it took; the block itself if it would take too many."""
    rows, columns = block.old_end - block.old_start, block.new_end - block.new_start
    furthest: dict[int, int] = {1: 0}
    trace: list[dict[int, int]] = []
    steps = 0
    for edits in range(min(rows + columns, _MAX_EXACT) + 1):
        trace.append(dict(furthest))
        steps += 2 * edits + 1
        if steps > budget:
            break
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
            row = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            column = row - diagonal
            while row < rows and column < columns and old[block.old_start + row] == new[block.new_start + column]:
                row += 1
                column += 1
                steps += 1
            furthest[diagonal] = row
            if row >= rows and column >= columns:
                return _walk_back(trace, rows, columns, block), steps
    return [block], steps


def _walk_back(trace: list[dict[int, int]], row: int, column: int, block: Block) -> list[Block]:
    blocks: list[Block] = []
    for edits in range(len(trace) - 1, 0, -1):
        furthest = trace[edits]
        diagonal = row - column
        down = diagonal == -edits or (diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1])
        diagonal += 1 if down else -1
        row = furthest[diagonal]
        column = row - diagonal
        old_start, new_start = block.old_start + row, block.new_start + column
        old_end, new_end = (old_start, new_start + 1) if down else (old_start + 1, new_start)
        if blocks and (blocks[-1].old_start, blocks[-1].new_start) == (old_end, new_end):
            follower = blocks.pop()
            old_end, new_end = follower.old_end, follower.new_end
        blocks.append(Block(old_start, old_end, new_start, new_end))
    return blocks[::-1]


def _groups(blocks: list[Block], context: int) -> list[list[Block]]:
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and block.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _hunk(old: list[str], new: list[str], group: list[Block], context: int) -> str:
    first, last = group[0], group[-1]
    before = min(context, first.old_start)
    after = min(context, len(old) - last.old_end)
    old_span = _span(first.old_start - before, last.old_end + after)
    new_span = _span(first.new_start - before, last.new_end + after)
    pieces = [f"@@ -{old_span} +{new_span} @@\n"]
    at = first.old_start - before
    for block in group:
        pieces += [_line(" ", line) for line in old[at : block.old_start]]
        pieces += [_line("-", line) for line in old[block.old_start : block.old_end]]
        pieces += [_line("+", line) for line in new[block.new_start : block.new_end]]
        at = block.old_end
    pieces += [_line(" ", line) for line in old[at : at + after]]
    return "".join(pieces)


def _span(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"
