"""What a folder tells agents is protected for commands and patches alike, and who meets a protected name is told how to open it."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.scenes import scene, told_to_model
from tests.tools.patch.tree import patch_text
from understudy.testing import call, say

CONFIG = {"approval_policy": "never", "sandbox_mode": "workspace-write"}


async def test_instructions_that_are_there_are_changed_by_neither(tmp_path: Path) -> None:
    names = ("AGENTS.md", "CLAUDE.md", ".claude/settings.json", "TEAM.md")
    (tmp_path / ".claude").mkdir()
    for name in names:
        (tmp_path / name).write_text("kept\n")
    line = "; ".join(f"echo x >> {name}" for name in names)
    script = [
        call("shell", command=["sh", "-c", f"{line}; rm -f {' '.join(names)}; echo first > GUIDE.md"]),
        *(call("apply_patch", call_id=name, input=patch_text(f"*** Update File: {name}", "@@", "-kept", "+x")) for name in names),
        say("done"),
    ]
    config = {**CONFIG, "project_doc_fallback_filenames": ["TEAM.md", "GUIDE.md"]}
    async with scene(script, tmp_path, config=config) as (model, client):
        await client.codex("Change them.")
        told = [told_to_model(model.requests[at + 2], name) for at, name in enumerate(names)]
    assert [(tmp_path / name).read_text() for name in names] == ["kept\n"] * len(names)
    assert (tmp_path / "GUIDE.md").read_text() == "first\n"  # none was there: to write the first one is an everyday request
    assert all("protected path" in text and "`protect` under [understudy.sandbox]" in text for text in told)


async def test_what_claude_md_imports_is_changed_by_neither_and_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("@one.md @two.md\n")
    for name in ("one.md", "two.md"):
        (tmp_path / name).write_text("kept\n")
    script = [
        call("shell", command=["sh", "-c", "echo x >> one.md; echo x >> two.md"]),
        call("apply_patch", call_id="p", input=patch_text("*** Update File: one.md", "@@", "-kept", "+y")),
        say("done"),
    ]
    config = {**CONFIG, "understudy.sandbox.protect": ["!two.md"]}
    async with scene(script, tmp_path, config=config) as (model, client):
        await client.codex("Change them.")
        assert "imported by CLAUDE.md" in str(model.requests[0])
        assert "protected path" in told_to_model(model.requests[2], "p")
    assert (tmp_path / "one.md").read_text() == "kept\n"
    assert (tmp_path / "two.md").read_text() == "kept\nx\n"


async def test_what_the_users_own_rules_lead_to_in_a_root_is_protected(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "rule.md").write_text("kept\n")
    rules = tmp_path / "user" / ".claude" / "rules"
    rules.mkdir(parents=True)
    (rules / "mine.md").symlink_to(tmp_path / "dotfiles" / "rule.md")
    script = [call("shell", command=["sh", "-c", "echo x >> dotfiles/rule.md; echo y > dotfiles/other.md"]), say("done")]
    async with scene(script, tmp_path, config=CONFIG, home=tmp_path / "user" / ".codex") as (model, client):
        await client.codex("Change them.")
        assert "kept" in str(model.requests[0])
    assert (tmp_path / "dotfiles" / "rule.md").read_text() == "kept\n"
    assert (tmp_path / "dotfiles" / "other.md").read_text() == "y\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "f").write_text("x")
    return tmp_path


async def test_a_commit_that_is_refused_says_what_opens_it(repository: Path) -> None:
    async with scene([call("shell", command=["git", "add", "f"]), say("done")], repository, config=CONFIG) as (model, client):
        await client.codex("Commit.")
        assert 'protect = [\\"!.git\\"]' in told_to_model(model.requests[1])
