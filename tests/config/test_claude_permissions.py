"""`permissions` of the user's settings.json for Claude Code: `deny` and `ask` are obeyed, the rest is named or left alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from understudy.config import load_config
from understudy.config.claude_permissions import MOST_RULES, read_permissions
from understudy.policy.rules import Rules, parse_rules
from understudy.protocol.records import Overrides

DENY = ["Bash(git push:*)", "Bash(curl *)", "Bash(rm -rf *)", "Bash(make deploy)", "Bash(npm:*)", "Edit(gen/**)", "Write(//etc/x)"]


def settings(folder: Path, **permissions: Any) -> str:
    path = folder / "settings.json"
    path.write_text(json.dumps({"permissions": permissions}))
    return str(path)


def rules(folder: Path, **permissions: Any) -> Rules:
    return parse_rules(read_permissions(settings(folder, **permissions)).rules, source="s", home="/home/me")


# What a run of Claude Code 2.1.327 with these rules refused; `more`: only here, where scripts are looked into as by any rule.
@pytest.mark.parametrize(
    ("command", "denied"),
    [
        ("git push origin", True),
        ("git push", True),
        ("git -C . push", False),
        ("echo a && git push", True),
        ("(git push)", True),
        ("X=1 git push", True),
        ("git pushx", False),
        ("curl http://127.0.0.1:1/", True),
        ("timeout 5 curl x", True),
        ("rm -rf nothere", True),
        ("make deploy", True),
        ("make deploy now", False),
        ("echo $(curl x)", True),
        ("npm", True),
        ("/usr/bin/git push", True),
        ("nice git push", True),
        ("env git push", True),
        ("git  push", True),
        ("bash -c 'git push'", True),  # more
        ("ls -la", False),
    ],
)
def test_commands_are_denied_as_in_claude_code(tmp_path: Path, command: str, denied: bool) -> None:
    found = rules(tmp_path, deny=DENY).against_command(("bash", "-lc", command), "/w", ("/w",))
    assert (found is not None and found.decision == "deny") == denied


@pytest.mark.parametrize(
    ("path", "denied"),
    [("/w/gen/x.py", True), ("/w/gen/deep/x", True), ("/w/src/gen.py", False), ("/etc/x", True), ("/w/x", False)],
)
def test_changes_are_denied_by_paths(tmp_path: Path, path: str, denied: bool) -> None:
    found = rules(tmp_path, deny=DENY).about_files((path,), ("/w",))
    assert (found is not None) == denied


def test_what_asks_asks_and_the_strictest_counts(tmp_path: Path) -> None:
    both = rules(tmp_path, ask=["Bash(git commit:*)", "Bash(git push:*)"], deny=["Bash(git push:*)"], allow=["Bash"])
    decisions = [both.against_command(("git", word), "/w", ()) for word in ("commit", "push", "status")]
    assert [None if found is None else found.decision for found in decisions] == ["ask", "deny", None]
    assert decisions[0] is not None
    assert decisions[0].name == f"Bash(git commit:*) in {tmp_path}/settings.json"


@pytest.mark.parametrize("entry", ["Bash", "Bash()", "Bash(*)", "Bash(:*)"])
def test_a_rule_about_all_commands_is_about_each(tmp_path: Path, entry: str) -> None:
    assert rules(tmp_path, deny=[entry]).against_command(("ls",), "/w", ()) is not None


def test_entries_beyond_the_most_that_are_obeyed_are_named(tmp_path: Path) -> None:
    found = read_permissions(settings(tmp_path, deny=[f"Bash(tool{number})" for number in range(MOST_RULES + 12)]))
    assert len(found.rules) == MOST_RULES
    assert f"`deny` of 'Bash(tool{MOST_RULES})'" in found.notices[0]
    assert "and 2 more" in found.notices[0]


def test_what_cannot_be_obeyed_is_named_once(tmp_path: Path) -> None:
    entries = ["Read(./.env)", "WebFetch(domain:x)", "mcp__srv", "Edit(src/[ab].py)", 5, "", "Bash(git push:*)", *["Read(x)"] * 20]
    found = read_permissions(settings(tmp_path, deny=entries, allow=["Read(y)"]))
    assert len(found.rules) == 1
    [notice] = found.notices
    assert all(each in notice for each in ("`deny` of 'Read(./.env)'", "mcp__srv", "[ab]", "and 16 more", "`mask`"))
    assert "Read(y)" not in notice


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"permissions": []}', '{"permissions": {"deny": "Bash"}}', "[" * 100_000, "\x00"]
)
def test_a_file_without_rules_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    found = read_permissions(str(tmp_path / "settings.json"))
    assert (found.rules, found.notices) == ((), ())


@pytest.mark.parametrize(("reads", "count"), [(True, 2), (False, 1)])
def test_they_stand_behind_the_users_other_rules(tmp_path: Path, reads: bool, count: int) -> None:
    (tmp_path / ".claude").mkdir()
    settings(tmp_path / ".claude", deny=["Bash(git push:*)"])
    tables = {"policy.rules": [{"name": "mine", "prefix": ["ls"], "decision": "ask"}]}
    given = Overrides(model="m", config=tables)
    config = load_config(tmp_path / ".codex", given, reads_user_file=reads, server_cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert len(config.policy_rules) == count
