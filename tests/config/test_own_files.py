"""Trust covers every file of a folder that decides what runs or what a model is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from understudy.config.trust import read_own_files

COVERED = (
    "AGENTS.md",
    "agents.override.md",
    "CLAUDE.md",
    "Claude.local.md",
    ".claude/settings.json",
    ".claude/skills/a/SKILL.md",
    ".agents/any",
    ".codex/config.toml",
    ".mcp.json",
)


@pytest.mark.parametrize("name", COVERED)
def test_a_change_of_any_of_them_is_seen(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    seen = [read_own_files(tmp_path).digest]
    file.parent.mkdir(parents=True, exist_ok=True)
    changes: tuple[Callable[[], object], ...] = (
        lambda: file.write_text("one"),
        lambda: file.write_text("two"),
        lambda: (file.unlink(), file.symlink_to("elsewhere")),
    )
    for change in changes:
        change()
        seen.append(read_own_files(tmp_path).digest)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", ["README.md", "docs/AGENTS.md", "MYCLAUDE.md", ".claude/worktrees/one/CLAUDE.md", "AGENTS.txt"])
def test_other_files_do_not_end_trust(tmp_path: Path, name: str) -> None:
    (tmp_path / ".claude").mkdir()
    before = read_own_files(tmp_path).digest
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("x")
    assert read_own_files(tmp_path).digest == before
