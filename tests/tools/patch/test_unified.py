"""Unified diffs: small ones as a person would write them, large ones true and in bounded time."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.testing.waiting import WAIT_SECONDS
from understudy.tools.patch.unified import changed_blocks, unified_diff


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ("one\ntwo\nthree\n", "one\nTWO\nthree\n", "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"),
        ("a\n", "b\n", "@@ -1 +1 @@\n-a\n+b\n"),
        ("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
        ("a\nb\nc\n", "a\nb\nc\nd\n", "@@ -3 +3,2 @@\n c\n+d\n"),
        ("a\nb", "a\nB\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+B\n"),
        ("a\nb\n", "a\nb", "@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n"),
        ("a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"),
        ("1\n2\n3\n4\n5\n6\n", "x\n2\n3\n4\n5\ny\n", "@@ -1,2 +1,2 @@\n-1\n+x\n 2\n@@ -5,2 +5,2 @@\n 5\n-6\n+y\n"),
        ("1\n2\n3\n4\n", "x\n2\n3\ny\n", "@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n-4\n+y\n"),
        ("def g():\n  2\nend\n", "def g():\n  3\nend\nmore\n", "@@ -1,3 +1,4 @@\n def g():\n-  2\n+  3\n end\n+more\n"),
        ("same\n", "same\n", ""),
    ],
)
def test_a_diff_with_one_line_of_context(old: str, new: str, diff: str) -> None:
    assert unified_diff(old, new, context=1) == diff


_lines = st.lists(st.sampled_from("abcdef").map("{}\n".format), max_size=30)


@given(_lines, _lines)
def test_what_lies_between_blocks_is_equal_and_little_else_is_in_them(old: list[str], new: list[str]) -> None:
    changed = _assert_true_blocks(old, new)
    assert changed == len(old) + len(new) - 2 * _longest_common(old, new)  # so few lines this small are diffed exactly


def _assert_true_blocks(old: list[str], new: list[str]) -> int:
    at_old = at_new = 0
    changed = 0
    for block in changed_blocks(old, new):
        assert old[at_old : block.old_start] == new[at_new : block.new_start]
        changed += block.old_end - block.old_start + block.new_end - block.new_start
        at_old, at_new = block.old_end, block.new_end
    assert old[at_old:] == new[at_new:]
    return changed


def _longest_common(old: list[str], new: list[str]) -> int:
    row = [0] * (len(new) + 1)
    for line in old:
        above = row
        row = [0]
        for place, other in enumerate(new):
            row.append(above[place] + 1 if line == other else max(above[place + 1], row[-1]))
    return row[-1]


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed (apt-get install patch)")
@pytest.mark.parametrize("scale", [10, 400, 3000])
def test_another_program_applies_our_diffs(tmp_path: Path, scale: int) -> None:
    old = "".join(f"line {number % 97} of {number}\n" for number in range(scale))
    new = "".join(
        f"line {number % 97} of {number}\n" * (number % 13 != 5) + "extra\n" * (number % 31 == 3) for number in range(scale)
    )
    (tmp_path / "file").write_text(old)
    diff = f"--- a/file\n+++ b/file\n{unified_diff(old, new, context=3)}"
    subprocess.run(["patch", "-s", "-p1"], cwd=tmp_path, input=diff, text=True, check=True, timeout=WAIT_SECONDS)
    assert (tmp_path / "file").read_text() == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("a\n" * 50_000, "b\n" * 50_000, id="nothing in common"),
        pytest.param("a\nb\n" * 25_000, "b\na\n" * 25_001, id="two lines, over and over"),
        pytest.param("".join(f"{n}\n" for n in range(50_000)), "".join(f"{n}\n" for n in reversed(range(50_000))), id="reversed"),
        pytest.param("".join(f"{n % 300}\n" for n in range(50_000)), "".join(f"{n % 301}\n" for n in range(50_000)), id="shifting"),
    ],
)
def test_texts_that_are_hard_to_compare_are_still_compared_truly(old: str, new: str) -> None:
    """Each takes a tenth of a second; comparing every line with every other would be minutes."""
    _assert_true_blocks(old.splitlines(keepends=True), new.splitlines(keepends=True))
