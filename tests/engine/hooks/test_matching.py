"""Which calls a matcher means, against recordings of codex 0.169.0 and Claude Code 2.1.327; each difference has a reason."""

from typing import Any

import pytest

from understudy.config.hooks.entries import Hook, HookFile
from understudy.engine.hooks.calls import CannotChange, see_arguments
from understudy.engine.hooks.matching import is_about, matches_name
from understudy.tools.mcp.remote_tool import RemoteTool

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Add File: d/b.txt\n+y\n*** End Patch\n"
ADD = RemoteTool("tiny", "add", "", {})
CALLS: dict[str, tuple[str, dict[str, Any], RemoteTool | None]] = {
    "command": ("exec_command", {"cmd": "echo hi"}, None),
    "patch": ("apply_patch", {"input": PATCH}, None),
    "tool": ("add", {"a": 1}, ADD),
}
RECORDED = {
    None: {"command", "patch", "tool"},
    "*": {"command", "patch", "tool"},
    "": {"command", "patch", "tool"},
    "Bash": {"command"},
    "^Ba": {"command"},
    "bash": set[str](),
    "shell|exec_command|local_shell": set[str](),
    "Edit|Write": {"patch"},
    "Edit, Bash": {"command", "patch"},
    "apply_patch": {"patch"},
    "mcp__tiny": set[str](),
    "mcp__tiny__.*": {"tool"},
    "[": set[str](),
}
MORE = {"shell|exec_command|local_shell": ({"command"}, "a guard that names our tool means it")}


def views(call: str, family: Any) -> Any:
    name, arguments, remote = CALLS[call]
    return see_arguments(name, arguments, remote, "/w").views[family]


@pytest.mark.parametrize("family", ["codex", "claude"])
@pytest.mark.parametrize("matcher", RECORDED)
def test_a_matcher_means_what_it_was_recorded_to_mean(matcher: str | None, family: str) -> None:
    found = {call for call in CALLS if any(matches_name(matcher, view.names) for view in views(call, family))}
    expected, reason = MORE.get(matcher or "", (RECORDED[matcher], "as recorded"))
    assert found == expected, reason


def test_a_call_is_told_in_the_shape_of_the_family() -> None:
    assert [(view.tool, view.input) for view in views("command", "codex")] == [("Bash", {"command": "echo hi"})]
    assert [(view.tool, view.input) for view in views("patch", "codex")] == [("apply_patch", {"command": PATCH})]
    assert [(view.tool, view.input) for view in views("patch", "claude")] == [
        ("Write", {"file_path": "/w/a.txt", "content": "x\n"}),
        ("Write", {"file_path": "/w/d/b.txt", "content": "y\n"}),
    ]
    [tool] = views("tool", "claude")
    assert (tool.tool, tool.input, tool.more["mcp_server"]["name"]) == ("mcp__tiny__add", {"a": 1}, "tiny")


def test_a_changed_call_is_taken_back_into_our_arguments_or_refused() -> None:
    [command] = views("command", "claude")
    assert command.change({"command": "echo ho"}) == {"cmd": "echo ho"}
    for wrong in ({}, {"command": 1}, {"command": "x", "workdir": "/"}):
        with pytest.raises(CannotChange):
            command.change(wrong)
    [whole] = views("patch", "codex")
    assert whole.change({"command": "another"}) == {"input": "another"}
    with pytest.raises(CannotChange):
        views("patch", "claude")[0].change({"file_path": "/w/a.txt", "content": "z"})
    edit = see_arguments("edit_file", {"path": "a", "old_text": "1", "new_text": "2"}, None, "/w").views["claude"][0]
    assert edit.change({**edit.input, "new_string": "3"}) == {"path": "a", "old_text": "1", "new_text": "3"}
    shell = see_arguments("shell", {"command": ["ls", "-l"]}, None, "/w").views["claude"][0]
    assert shell.change({"command": "ls; pwd"}) == {"command": ["bash", "-c", "ls; pwd"]}


@pytest.mark.parametrize(
    ("rule", "command", "about"),
    [
        ("Bash(git *)", "git push", True),
        ("Bash(git:*)", "git", True),
        ("Bash(git *)", "ls && git push", True),
        ("Bash(git *)", "ls", False),
        ("Bash(git *)", "ls $(git push)", True),  # whatever a shell makes of it
        ("Edit", "git push", False),
        ("nonsense(((", "ls", True),
        (None, "ls", True),
    ],
)
def test_a_rule_rather_calls_a_guard_too_often(rule: str | None, command: str, about: bool) -> None:
    hook = Hook(HookFile("/h", "claude", "user"), "/h:pre_tool_use:0:0", "PreToolUse", "true", condition=rule)
    assert is_about(hook, ("Bash",), {"command": command}) is about
