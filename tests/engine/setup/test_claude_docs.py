"""What Claude Code reads besides a CLAUDE.md: rules, a file kept out of the repository, and imports by `@path`."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.engine.setup.planting import Planted
from understudy.config.sandbox import places_of
from understudy.engine.setup.claude_docs import MOST_FILES, imports_in
from understudy.engine.setup.setup import own_docs, project_docs, user_instructions


@pytest.fixture
def tree(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def told(tree: Planted, cwd: Path | None = None, **settings: Any) -> str:
    return user_instructions(tree.config(cwd, **settings)) or ""


def read(tree: Planted, **settings: Any) -> list[str]:
    config = tree.config(**settings)
    return [os.path.relpath(doc.path, tree.project) for doc in project_docs(config, places_of(config))]


def test_imports_are_told_behind_the_file_that_names_them_as_claude_code_does(tree: Planted) -> None:
    """The tree of a run of Claude Code 2.1.327, which read the same files in the same order."""
    tree.write(tree.user / ".claude" / "CLAUDE.md", "HOME RULES @extra.md\n")
    tree.write(tree.user / ".claude" / "extra.md", "IMPORTED FROM HOME\n")
    tree.write(tree.user / ".claude" / "homefile.md", "OF HOME\n")
    project = tree.project
    tree.write(
        project / "CLAUDE.md",
        "PROJECT RULES\n@docs/more.md\n- see @docs/third.md for x\n`@docs/no.md`\n```\n@docs/no2.md\n```\n"
        "@~/.claude/homefile.md\n@/etc/hostname\n@missing.md\n",
    )
    for name, text in (("more", "MORE\n@deep.md\n"), ("deep", "DEEP\n"), ("third", "THIRD\n"), ("no", "NO"), ("no2", "NO")):
        tree.write(project / "docs" / f"{name}.md", text)
    tree.write(project / "CLAUDE.local.md", "LOCAL RULES\n")
    tree.write(project / ".claude" / "rules" / "r.md", "RULE R\n")
    tree.write(project / ".claude" / "rules" / "p.md", '---\npaths: ["src/**"]\n---\nRULE P\n')
    assert read(tree) == [
        "CLAUDE.md",
        "docs/more.md",
        "docs/deep.md",
        "docs/third.md",
        ".claude/rules/p.md",
        ".claude/rules/r.md",
        "CLAUDE.local.md",
    ]
    text = told(tree)
    assert "HOME RULES @extra.md\n\nContents of extra.md, imported by CLAUDE.md:\n\nIMPORTED FROM HOME" in text
    assert "Contents of docs/deep.md, imported by docs/more.md:\n\nDEEP" in text
    assert 'Before you work on files that match ["src/**"], read .claude/rules/p.md.' in text
    assert not any(word in text for word in ("RULE P", "OF HOME", "NO\n"))


def test_a_file_for_all_agents_keeps_the_rules_beside_it(tree: Planted) -> None:
    tree.write(tree.project / "AGENTS.md", "AGENTS @docs/a.md\n")
    tree.write(tree.project / "CLAUDE.md", "@AGENTS.md\n")
    tree.write(tree.project / "docs" / "a.md", "not imported: only Claude Code's files import\n")
    tree.write(tree.project / ".claude" / "rules" / "style" / "r.md", "RULE\n")
    assert read(tree) == ["AGENTS.md", ".claude/rules/style/r.md"]


def test_the_users_own_rules_count_beside_any_file_of_theirs(tree: Planted) -> None:
    tree.write(tree.home / "AGENTS.md", "MINE\n")
    tree.write(tree.user / "dotfiles" / "r.md", "MY RULE\n")
    (tree.user / ".claude").mkdir()
    (tree.user / ".claude" / "rules").symlink_to(tree.user / "dotfiles")
    assert told(tree) == "MINE\n\nMY RULE"


def test_a_folder_that_is_marked_untrusted_has_none_of_it(tree: Planted) -> None:
    for name in ("CLAUDE.local.md", ".claude/rules/r.md", "CLAUDE.md"):
        tree.write(tree.project / name, "words\n")
    tree.write(tree.home / "config.toml", f'[projects."{tree.project}"]\ntrust_level = "untrusted"\n')
    assert told(tree) == ""


@pytest.mark.parametrize(
    "line",
    ["@../secret.md", "@/etc/hostname", "@link.md", "@pipe.md", "@folder.md", "@CLAUDE.md", "@a\0b.md", "@.env", "@README.md"],
)
def test_nothing_else_is_imported(tree: Planted, line: str) -> None:
    tree.write(tree.project.parent / "secret.md", "SECRET\n")
    tree.write(tree.project / ".env", "SECRET\n")
    tree.write(tree.project / "README.md", "SECRET: it may change every day\n")
    (tree.project / "link.md").symlink_to(tree.project.parent / "secret.md")
    (tree.project / "folder.md").mkdir()
    os.mkfifo(tree.project / "pipe.md")
    tree.write(tree.project / "CLAUDE.md", f"words {line}\n")
    assert read(tree) == ["CLAUDE.md"]
    assert "SECRET" not in told(tree)


def test_a_masked_file_is_not_imported(tree: Planted) -> None:
    tree.write(tree.project / "vault" / "a.md", "SECRET\n")
    tree.write(tree.project / "CLAUDE.md", "@vault/a.md\n")
    assert "SECRET" not in told(tree, cwd=None, **{"understudy.sandbox.mask": ["vault"]})


def test_rules_behind_a_link_out_of_the_project_are_not_told(tree: Planted) -> None:
    tree.write(tree.user / "elsewhere" / "r.md", "SECRET\n")
    (tree.project / ".claude").mkdir()
    (tree.project / ".claude" / "rules").symlink_to(tree.user / "elsewhere")
    tree.write(tree.project / "CLAUDE.md", "words\n")
    assert read(tree) == ["CLAUDE.md"]


def test_rules_behind_a_link_in_the_project_are_not_told_since_a_model_could_write_them(tree: Planted) -> None:
    tree.write(tree.project / "docs" / "r.md", "WRITTEN\n")
    tree.write(tree.project / ".claude" / "rules" / "own.md", "RULE\n")
    (tree.project / ".claude" / "rules" / "link.md").symlink_to(tree.project / "docs" / "r.md")
    (tree.project / ".claude" / "rules" / "below").symlink_to(tree.project / "docs")
    assert read(tree) == [".claude/rules/own.md"]
    (tree.project / ".claude" / "rules").rename(tree.project / "docs" / "rules")
    (tree.project / ".claude" / "rules").symlink_to(tree.project / "docs" / "rules")
    assert read(tree) == []


def test_files_that_import_each_other_or_very_many_come_to_an_end(tree: Planted) -> None:
    names = [f"d/{number}.md" for number in range(500)]
    tree.write(tree.project / "CLAUDE.md", "".join(f"@{name}\n" for name in names) + "@loop.md\n")
    tree.write(tree.project / "loop.md", "@CLAUDE.md @loop.md @again.md\n")
    tree.write(tree.project / "again.md", "@loop.md\n")
    for name in names:
        tree.write(tree.project / name, "@../loop.md\n")
    assert len(read(tree, project_doc_max_bytes=1 << 20)) <= MOST_FILES + 1


def test_all_of_it_has_the_same_room_and_what_is_cut_is_said(tree: Planted, caplog: pytest.LogCaptureFixture) -> None:
    tree.write(tree.project / "CLAUDE.md", "@a.md\n")
    tree.write(tree.project / "a.md", "0123456789")
    assert "imported by CLAUDE.md:\n\n0123" in told(tree, project_doc_max_bytes=10)
    assert "01234" not in told(tree, project_doc_max_bytes=10)
    assert [f"{tree.project}/a.md is not told as a whole" in text for text in caplog.messages] == [True]
    caplog.clear()
    told(tree, project_doc_max_bytes=0)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see @docs/a.md, then (@b.md)", ["docs/a.md"]),
        ("mail me@example.md", []),
        ("@a\\ b.md", ["a b.md"]),
        ("@a.md#part", ["a.md"]),
        ("`x` @a.md `y @b.md`", ["a.md"]),
        ("~~~\n@a.md\n~~~\n@b.md", ["b.md"]),
        ("```\n@a.md", []),
        ("``` @a.md\n" * 3, []),
        ("`" * 100_000 + "@" * 100_000, []),
    ],
)
def test_what_reads_like_an_import(text: str, found: list[str]) -> None:
    assert [name for name in imports_in(text) if not name.startswith("@")] == found


def test_the_users_own_imports_stay_in_their_folder(tree: Planted) -> None:
    tree.write(tree.user / "secret.md", "SECRET")
    tree.write(tree.user / ".claude" / "CLAUDE.md", "mine @../secret.md @~/secret.md\n")
    config = tree.config()
    assert [doc.path for doc in own_docs(config, places_of(config))] == [f"{tree.user}/.claude/CLAUDE.md"]
