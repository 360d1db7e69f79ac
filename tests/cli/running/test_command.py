"""`apply-patch` for a person or a script: summary, reason, exit code."""

from pathlib import Path

import pytest

from tests.tools.patch.tree import contents, patch_text, write_files
from understudy.cli.running.patch import CommandOutcome, run_apply_patch


def test_success_is_a_summary(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "1\n", "b": "2\n"})
    text = patch_text("*** Delete File: b", "*** Update File: a", "@@", "-1", "+one", "*** Add File: c", "+3")
    assert run_apply_patch(text, str(tmp_path)) == CommandOutcome(
        0, stdout="Success. Updated the following files:\nA c\nM a\nD b\n"
    )
    assert contents(tmp_path) == {"a": "one\n", "c": "3\n"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("garbage", "Invalid patch: The first line of the patch must be '*** Begin Patch'"),
        (patch_text("*** Update File: a"), "Invalid patch hunk on line 2: Update file hunk for path 'a' is empty"),
        (patch_text(), "No files were modified."),
        (patch_text("*** Add File: new", "+x", "*** Delete File: none"), "Failed to delete file none"),
        (patch_text("*** Update File: a", "@@", "-2"), 'Failed to find expected lines ["2"] in {}/a'),
    ],
)
def test_failure_is_one_line_of_reason(tmp_path: Path, text: str, reason: str) -> None:
    write_files(tmp_path, {"a": "1\n"})
    assert run_apply_patch(text, str(tmp_path)) == CommandOutcome(1, stderr=reason.format(tmp_path) + "\n")
    assert contents(tmp_path) == {"a": "1\n"}
