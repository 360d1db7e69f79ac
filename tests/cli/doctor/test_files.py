"""`understudy doctor --files`: each file that says how to work, whether it counts, and why not."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.program import Program


def plant(path: Path, text: str = "words\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def planted(program: Program) -> Program:
    user, project = program.home.parent, program.cwd
    program.configure('model_provider = "scripted"\n')
    plant(project / ".git" / "HEAD", "")
    for name in (
        "AGENTS.md",
        "AGENTS.override.md",
        "Claude.md",
        "CLAUDE.local.md",
        ".claude/rules/r.md",
        ".claude-plugin/plugin.json",
    ):
        plant(project / name)
    plant(project / ".claude" / "skills" / "good" / "SKILL.md", "---\ndescription: Good.\n---\n")
    plant(project / ".agents" / "skills" / "broken" / "SKILL.md", "nothing")
    plant(project / ".claude" / "commands" / "go.md", "Go !`ls`")
    (project / ".claude" / "commands" / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(project / ".claude" / "commands" / "pipe.md")
    plant(project / ".claude" / "agents" / "a.md")
    plant(project / ".codex" / "agents" / "b.toml")
    plant(project / ".mcp.json", "{}")
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    plant(project / ".claude" / "settings.json", json.dumps(hooks))
    plant(user / ".claude" / "skills" / "good" / "SKILL.md", "---\ndescription: Mine.\n---\n")
    plant(user / ".claude" / "skills" / "mine" / "SKILL.md", "---\ndescription: Mine.\nuser-invocable: false\n---\n")
    return program


def listed(program: Program) -> dict[str, tuple[str, str]]:
    ended = program.call("doctor", "--files", "--json")
    assert ended.code == 0, ended
    rows = json.loads(ended.out)["files"]
    assert all(row["counts"] == (row["standing"] == "counts") for row in rows)
    places = ((str(program.cwd), "project"), (str(program.home.parent), "user"))
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        path = row["path"]
        for folder, name in places:
            path = path.replace(folder, name, 1) if path.startswith(folder) else path
        found[path] = row["standing"], row.get("why", "")
    return found


def test_every_file_is_listed_with_whether_it_counts(planted: Program) -> None:
    found = listed(planted)
    assert {path: standing for path, (standing, _) in found.items()} == {
        "project/AGENTS.override.md": "counts",
        "project/AGENTS.md": "no",
        "project/Claude.md": "no",
        "project/CLAUDE.local.md": "counts",
        "project/.claude/rules/r.md": "counts",
        "project/.claude/skills/good/SKILL.md": "trust",
        "project/.agents/skills/broken/SKILL.md": "no",
        "project/.claude/commands/go.md": "trust",
        "project/.claude/commands/link.md": "no",
        "project/.claude/commands/pipe.md": "no",
        "project/.claude/agents/a.md": "no",
        "project/.codex/agents/b.toml": "no",
        "project/.claude-plugin/plugin.json": "no",
        "project/.claude/settings.json": "trust",
        "project/.mcp.json": "trust",
        "user/.claude/skills/good/SKILL.md": "counts",
        "user/.claude/skills/mine/SKILL.md": "counts",
    }
    assert found["project/AGENTS.md"][1] == "AGENTS.override.md beside it comes first"
    assert "only these names count" in found["project/Claude.md"][1]
    assert "should begin with" in found["project/.agents/skills/broken/SKILL.md"][1]
    assert found["project/.claude/agents/a.md"][1] == "agents of one's own are not used yet"
    assert found["user/.claude/skills/mine/SKILL.md"][1] == "only for the model"


def test_what_is_trusted_counts_and_hides_others_of_its_name(planted: Program) -> None:
    assert planted.call("trust", str(planted.cwd)).code == 0
    found = listed(planted)
    assert [path for path, (standing, _) in found.items() if standing == "trust"] == []
    assert found["project/.claude/commands/go.md"] == ("counts", "`!` lines in it are not run: the model is given them")
    assert found["project/.mcp.json"][0] == found["project/.claude/settings.json"][0] == "counts"
    assert found["user/.claude/skills/good/SKILL.md"][0] == "no"
    assert "of the same name comes first" in found["user/.claude/skills/good/SKILL.md"][1]


def test_imports_are_listed_and_those_that_are_left_out_named(planted: Program) -> None:
    plant(planted.cwd / "docs" / "a.md", "words\n")
    plant(planted.cwd / "package.json", "{}\n")
    plant(planted.cwd / "CLAUDE.local.md", "@docs/a.md @package.json @../other.md @nowhere.md\n")
    plant(planted.cwd.parent / "other.md")
    found = listed(planted)
    assert found["project/docs/a.md"] == ("counts", "imported")
    assert found["project/package.json"][1].startswith("not imported, since it may change every day")
    assert any(path.endswith("/other.md") and "leads out of" in why for path, (_, why) in found.items())


def test_a_folder_that_is_marked_as_untrusted_has_nothing_that_counts(planted: Program) -> None:
    planted.configure(f'model_provider = "scripted"\n[projects."{planted.cwd}"]\ntrust_level = "untrusted"\n')
    found = {path: why for path, (standing, why) in listed(planted).items() if standing != "no"}
    assert set(found) == {"user/.claude/skills/good/SKILL.md", "user/.claude/skills/mine/SKILL.md"}


def test_for_people_it_is_a_list(planted: Program) -> None:
    shown = planted.call("doctor", "--files").out
    assert "Instructions" in shown
    assert "✓ counts good" in shown
    assert "! trust" in shown
    assert "run `understudy trust DIR`" in shown


def test_without_any_file_it_says_so(program: Program) -> None:
    program.configure('model_provider = "scripted"\n')
    assert "No such file is there" in program.call("doctor", "--files").out


def test_rules_of_claude_codes_settings_are_counted_apart_and_tried(program: Program) -> None:
    program.configure('model_provider = "scripted"\n[[policy.rules]]\nprefix = ["ls"]\ndecision = "ask"\n')
    settings = program.home.parent / ".claude" / "settings.json"
    plant(settings, '{"permissions": {"deny": ["Bash(git push:*)", "Read(./.env)"]}}')
    shown = program.call("doctor", "--json").out
    assert f"1 in [[policy.rules]], 1 in {settings}" in shown
    assert "`deny` of 'Read(./.env)'" in shown
    assert "Bash(git push:*) in " in program.call("policy", "check", "--", "env", "git", "push").out
