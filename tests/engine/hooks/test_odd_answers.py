"""Odd answers of a PreToolUse hook, each run in Claude Code 2.1.327 as well: what it blocks is blocked here, and where it runs a
call after an answer that makes no sense, a person is asked.
"""

import json
from typing import Any

import pytest

from understudy.config.hooks.entries import Family
from understudy.engine.hooks.answers import Ran, read_answer


def said(**keys: Any) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **keys}})


@pytest.mark.parametrize("family", ["claude", "codex"])
@pytest.mark.parametrize(
    ("code", "out", "error", "decision"),
    [
        (2, '{"decision": "approve"}', "no", "deny"),
        (2, "", "line 1\nline 2\n", "deny"),
        (0, '  {"decision": "block", "reason": "r"}', "", "deny"),
        (1, '{"decision": "block", "reason": "r"}', "", "deny"),  # the exit code does not take the no back
        (7, said(permissionDecision="deny"), "", "deny"),
        (0, said(permissionDecision="deny", permissionDecisionReason=""), "", "deny"),
        (0, '{"decision": "block"}', "", "deny"),
        (0, '{"decision": "deny", "reason": "old"}', "", "deny"),  # Claude Code runs it
        (0, 'text {"decision": "block", "reason": "r"}', "", "none"),
        (0, "null", "", "none"),
        (0, '"x"', "", "none"),
        (0, "{}", "", "none"),
        (0, '{"decision": null, "reason": "x"}', "", "none"),
        (0, '{"reason": "only"}', "", "none"),
        (0, '{"continue": true, "suppressOutput": true, "systemMessage": "hi"}', "", "none"),
        (0, '{"decision": "block", "reason": "r"}\n{"decision": "approve"}', "", "ask"),
        (0, "[]", "", "ask"),
        (0, said(permissionDecision="defer"), "", "ask"),
        (1, '{"decision": "approve"}', "", "ask"),
        (1, said(permissionDecision="allow"), "", "ask"),
        (3, "", "", "ask"),
        (255, "words", "", "ask"),
    ],
)
def test_what_blocks_blocks_and_what_makes_no_sense_is_asked_about(
    family: Family, code: int, out: str, error: str, decision: str
) -> None:
    assert read_answer("PreToolUse", family, Ran(code, out, error)).decision == decision
