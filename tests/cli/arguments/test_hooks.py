"""`understudy hooks`: which hooks there are and whether they count, what one answers, and trusting one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program

GUARD = """#!/bin/sh
case "$(cat)" in
*"rm -rf"*) echo "nothing is removed here" >&2; exit 2 ;;
*crash*) exit 7 ;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    home, cwd = tmp_path / "user" / ".codex", tmp_path / "work"
    home.mkdir(parents=True)
    cwd.mkdir()
    return Program(home, cwd)


def write(path: Path, **events: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": events}))
    return path


def entry(command: str, matcher: str | None = None, **more: Any) -> list[dict[str, Any]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}]


def guarded(program: Program) -> Path:
    script = program.cwd / ".claude" / "hooks" / "guard.sh"
    script.parent.mkdir(parents=True)
    script.write_text(GUARD)
    script.chmod(0o755)
    return write(
        program.cwd / ".claude" / "settings.json", PreToolUse=entry('"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh', "Bash")
    )


def listed(program: Program) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(program.run("hooks", "list", "--json").out)["hooks"]
    return rows


def test_hooks_of_both_programs_are_listed_and_those_of_a_folder_wait_for_trust(program: Program) -> None:
    guarded(program)
    write(program.home / "hooks.json", Stop=entry("true"))
    write(program.home.parent / ".claude" / "settings.json", SessionStart=entry("echo hi", "startup"))
    (program.home / "config.toml").write_text('[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "x"\n')
    rows = [(row["eventName"], row["source"], row["trustStatus"]) for row in listed(program)]
    assert rows == [
        ("stop", "user", "trusted"),
        ("preToolUse", "user", "trusted"),
        ("sessionStart", "user", "trusted"),
        ("preToolUse", "project", "untrusted"),
    ]


@pytest.mark.slow
def test_trust_is_for_the_entry_and_its_script(program: Program) -> None:
    file = guarded(program)
    [row] = listed(program)
    assert program.run("hooks", "trust", row["key"]).code == 0
    assert listed(program)[0]["trustStatus"] == "trusted"
    script = program.cwd / ".claude" / "hooks" / "guard.sh"
    script.write_text("#!/bin/sh\n")
    assert listed(program)[0]["trustStatus"] == "modified"
    script.write_text(GUARD)
    assert listed(program)[0]["trustStatus"] == "trusted"
    write(file, PreToolUse=entry("true", "Bash"))
    assert listed(program)[0]["trustStatus"] == "modified"
    told = program.run("hooks", "list")
    assert "has changed since you trusted it" in told.err


def test_trusting_a_folder_trusts_its_hooks_and_says_which(program: Program) -> None:
    guarded(program)
    told = program.run("trust", ".")
    assert "its hook for PreToolUse counts now" in told.err
    assert listed(program)[0]["trustStatus"] == "trusted"
    program.run("trust", ".", "--remove")
    assert listed(program)[0]["trustStatus"] == "untrusted"


def test_trust_is_for_the_folder_by_whatever_name_it_is_reached(program: Program, tmp_path: Path) -> None:
    guarded(program)
    program.run("trust", ".")
    (tmp_path / "link").symlink_to(program.cwd)
    rows = json.loads(program.run("hooks", "list", "--json", "--cwd", str(tmp_path / "link")).out)["hooks"]
    assert [row["trustStatus"] for row in rows] == ["trusted"]


def test_one_bad_entry_is_named_and_all_others_stay(program: Program) -> None:
    hooks = [{"type": "prompt", "prompt": "x"}, {"type": "command", "command": "true", "timeout": "soon"}]
    good = {"type": "command", "command": "true"}
    write(
        program.home / "hooks.json",
        PreToolUse=[{"hooks": [*hooks, good]}, {"matcher": "[", "hooks": [good]}, {"hooks": "none"}],
        Dreamt=[{"hooks": [good]}],
    )
    told = program.run("hooks", "list", "--json")
    assert [row["key"].rpartition("/")[2] for row in json.loads(told.out)["hooks"]] == ["hooks.json:pre_tool_use:0:2"]
    warnings = " ".join(json.loads(told.out)["warnings"])
    for word in ("'prompt' is not known", "`timeout`", "no regular expression", "a list `hooks`", "Dreamt"):
        assert word in warnings


@pytest.mark.slow
def test_a_hook_is_tried_without_anything_at_stake(program: Program) -> None:
    file = guarded(program)
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    assert program.run("hooks", "test", str(file)).code == 0
    for command, code, words in (("rm -rf x", 2, "nothing is removed here"), ("crash", 1, "exited with code 7")):
        told = program.run(
            "hooks", "test", str(file), "--input", "-", stdin=json.dumps({**asked, "tool_input": {"command": command}})
        )
        assert (told.code, words in told.out) == (code, True), told
    assert program.run("hooks", "test", str(file), "--event", "Stop").err.startswith("no hook")
    assert program.run("hooks", "test", str(file), "--event", "Dreamt").code == 1


def test_a_file_that_is_no_json_is_named(program: Program) -> None:
    (program.home / "hooks.json").write_text("{")
    assert "is not JSON" in program.run("hooks", "list").err


def test_a_link_in_a_folder_is_not_followed(program: Program, tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere.json", Stop=entry("true"))
    (program.cwd / ".claude").mkdir()
    (program.cwd / ".claude" / "settings.json").symlink_to(elsewhere)
    told = program.run("hooks", "list")
    assert "it has to be a plain file" in told.err
    assert told.out == ""
