"""docs/hooks.md: its files do what the page says of them, its commands run, and its tables name what the code has."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.user import make_user
from understudy.config.hooks.entries import EVENTS
from understudy.engine.hooks.calls import see_arguments
from understudy.tools.registry import TOOLS

PAGE = ROOT / "docs" / "hooks.md"
FILES = [block for block in blocks("json") if block.page == PAGE]
COMMANDS = [block for block in blocks("sh") if block.page == PAGE]


@pytest.mark.slow
def test_its_commands_run_on_its_first_file(tmp_path: Path) -> None:
    user = make_user(tmp_path)
    settings = user.home.parent / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(FILES[0].text)
    for block in COMMANDS:
        done = user.run(["sh", "-ec", block.text])
        assert done.returncode == 0, done
        assert "pushing is done by people" in done.stdout


@pytest.mark.slow
def test_its_broken_guard_fails(tmp_path: Path) -> None:
    user = make_user(tmp_path)
    file = tmp_path / "settings.json"
    file.write_text(FILES[1].text)
    done = user.run(["understudy", "hooks", "test", str(file), "--event", "PreToolUse"])
    assert (done.returncode, "JSON in which nothing is known" in done.stdout) == (1, True), done


def test_it_names_all_events_and_files_are_json() -> None:
    text = PAGE.read_text()
    table = text.partition("## Events")[2].partition("## When")[0]
    assert set(re.findall(r"^\| `(\w+)` \| (?!also)", table, re.MULTILINE)) >= set(EVENTS)
    assert len(FILES) == 2
    for block in FILES:
        assert json.loads(block.text)["hooks"]


def test_it_names_all_tools_with_the_names_that_guards_know() -> None:
    table = PAGE.read_text().partition("| tool | also matched by |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", line) for line in table.splitlines() if line.startswith("| `")]
    told = {name: set(row) for row in rows for name in row}
    for entry in TOOLS:
        name = entry.names[0]
        given = {"chars": "x", "session_id": 1} if name == "write_stdin" else {}
        if name not in told:
            continue  # one that came later is matched by its own name
        view = see_arguments(name, given, None, "/").views["claude"][0]
        assert set(view.names) <= told[name] | {"apply_patch"}, name
