"""docs/files.md: its blocks run one after the other, and its tables say what the code does."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.user import make_user
from understudy.config.load import CLAUDE_DOC_NAMES, DOC_NAMES
from understudy.config.project import COMMAND_FOLDERS, SKILL_FOLDERS
from understudy.config.trust import _MAX_BYTES, _MAX_FILES  # pyright: ignore[reportPrivateUsage]
from understudy.engine.setup.called import MOST_SPELLED_OUT
from understudy.engine.setup.disk import MOST_FOLDERS, MOST_LOOKED_AT

PAGE = ROOT / "docs" / "files.md"


@pytest.mark.slow
def test_its_commands_run_in_one_go(tmp_path: Path) -> None:
    user = make_user(tmp_path)
    shown = [user.run(["sh", "-ec", block.text]) for block in blocks("sh") if block.page == PAGE]
    assert [done.returncode for done in shown] == [0, 0, 0], shown
    assert "counts release" in shown[1].stdout
    assert shown[2].stdout.count('"name": "/') == 2


def test_it_names_what_the_code_looks_for() -> None:
    text = PAGE.read_text()
    for name in (*DOC_NAMES, *CLAUDE_DOC_NAMES, *SKILL_FOLDERS, *COMMAND_FOLDERS):
        assert f"`{name}`" in text, name
    row = next(line for line in text.splitlines() if line.startswith("| each folder"))
    named = re.findall(r"`([^`]+\.md)`", row)
    assert named == [*DOC_NAMES, *CLAUDE_DOC_NAMES]
    flat = " ".join(text.split())
    assert f"more than {_MAX_FILES:,} or larger than {_MAX_BYTES >> 20} MiB" in flat
    assert f"at most {MOST_LOOKED_AT:,} entries each and {MOST_LOOKED_AT + MOST_FOLDERS:,} folders" in flat
    assert f"{MOST_SPELLED_OUT:,} characters" in flat
