"""Diffs of several turns as one: applied to what was before the first, it gives what is after the last."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from understudy.servers.rest.diffs import join_diffs, split_files
from understudy.tools.patch.unified import unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), max_size=25)


def text_of(lines: list[str], end: bool) -> str:
    return "\n".join(lines) + ("\n" if end and lines else "")


TEXTS = st.builds(text_of, LINES, st.booleans())


def whole_diff(old: str, new: str, name: str = "f") -> str:
    """As a turn tells it."""
    if old == new:
        return ""
    kind = "new file mode 100644\n" if not old else "deleted file mode 100644\n" if not new else ""
    names = f"--- {f'a/{name}' if old else '/dev/null'}\n+++ {f'b/{name}' if new else '/dev/null'}\n"
    return f"diff --git a/{name} b/{name}\n{kind}index 1..2\n{names}{unified_diff(old, new, context=3)}"


def apply_diff(old: str, diff: str) -> str:
    """By the numbers of its hunks, each line compared."""
    lines = re.findall(r"[^\n]*\n|[^\n]+\Z", old)
    made: list[str] = []
    at = 0
    body = diff.split("\n")
    for number, head in enumerate(body):
        found = re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", head)
        if found is None:
            continue
        start, count = int(found[1]), int(found[2] or 1)
        begin = start - 1 if count else start
        made += lines[at:begin]
        at = begin
        left_old, left_new = count, int(found[4] or 1)
        next_line = number + 1
        while left_old or left_new:
            line = body[next_line]
            ends = "" if body[next_line + 1 : next_line + 2] == ["\\ No newline at end of file"] else "\n"
            next_line += 1 if ends else 2
            if line[0] in " -":
                assert lines[at] == line[1:] + ends
                at += 1
                left_old -= 1
            if line[0] in " +":
                left_new -= 1
                made.append(line[1:] + ends)
    return "".join(made + lines[at:])


@given(st.lists(TEXTS, min_size=2, max_size=5))
def test_a_joined_diff_leads_from_the_beginning_to_the_end(states: list[str]) -> None:
    if any(not state for state in states[1:-1]):  # removed and made again: told one after the other
        return
    diffs = [diff for old, new in pairwise(states) if (diff := whole_diff(old, new))]
    joined = join_diffs(diffs)
    assert apply_diff(states[0], joined) == states[-1]
    assert len(split_files(joined)) <= 1
    if states[0] == states[-1]:
        assert joined == ""


def test_lines_that_were_removed_and_put_back_are_no_change() -> None:
    begun = "a\nb\n" + "a\n" * 9 + "b\na\na\na\n"
    states = [begun, "a\na", "b\na\n", begun]
    assert join_diffs([whole_diff(old, new) for old, new in pairwise(states)]) == ""


def test_files_are_told_apart_and_sorted() -> None:
    joined = join_diffs([whole_diff("", "x\n", "b"), whole_diff("", "y\n", "a")])
    assert [file.new for file in split_files(joined)] == ["a", "b"]


def test_what_something_else_has_changed_in_between_is_told_one_after_the_other() -> None:
    first, second = whole_diff("a\nb\n", "a\nc\n"), whole_diff("a\nX\n", "a\nY\n")
    assert join_diffs([first, second]) == first + second


def test_a_file_that_was_made_and_removed_leaves_nothing() -> None:
    assert join_diffs([whole_diff("", "x\n"), whole_diff("x\n", "")]) == ""


def test_a_moved_file_is_followed() -> None:
    moved = "diff --git a/f b/g\nindex 1..2\n--- a/f\n+++ b/g\n" + unified_diff("a\nb\n", "a\nc\n", context=3)
    joined = join_diffs([whole_diff("", "a\nb\n"), moved])
    [file] = split_files(joined)
    assert (file.old, file.new) == ("", "g")
    assert apply_diff("", joined) == "a\nc\n"
