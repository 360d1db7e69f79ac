"""What codex and Claude Code made of the answers of hooks, against what we make of them: each difference has a reason.

The recordings are of codex 0.169.0 and Claude Code 2.1.327: `recorded_answers.json` has a line for each case.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from understudy.engine.hooks.answers import HookAnswer, Ran, read_answer

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("recorded_answers.json").read_text())

CLOSED = "a guard that fails keeps the call from running until a person has said yes"
NO_ALLOW = "no hook may lift a rule, a question or the sandbox: its yes means that it has no objection"
OBEYED = "what clearly means no is a no, whatever is missing or unknown beside it"
ONE_MEANING = "the same answer means the same in files of both programs"

# ours, and why it differs
DIFFERENT: Mapping[str, tuple[str, str]] = {
    "codex PreToolUse c_exit2_silent": ("blocked", OBEYED),
    "codex PreToolUse c_exit2_stdout": ("blocked", OBEYED),
    "codex PreToolUse c_exit1": ("asks (hook failed)", CLOSED),
    "codex PreToolUse c_deny_noreason": ("blocked", OBEYED),
    "codex PreToolUse c_deny_noevent": ("blocked", OBEYED),
    "codex PreToolUse c_allow": ("ordinary rules", NO_ALLOW),
    "codex PreToolUse c_ask": ("asks", ONE_MEANING),
    "codex PreToolUse c_update_only": ("asks (hook failed)", CLOSED),
    "codex PreToolUse c_approve": ("ordinary rules", NO_ALLOW),
    "codex PreToolUse c_stop": ("blocked", OBEYED),
    "codex PreToolUse c_suppress": ("ordinary rules", ONE_MEANING),
    "codex PreToolUse c_badjson": ("asks (hook failed)", CLOSED),
    "codex PreToolUse c_array": ("asks (hook failed)", CLOSED),
    "codex PreToolUse c_unknown": ("blocked", OBEYED),
    "codex PreToolUse c_timeout": ("asks (hook failed)", CLOSED),
    "claude PreToolUse c_exit1": ("asks (hook failed)", CLOSED),
    "claude PreToolUse c_deny_noevent": ("blocked", OBEYED),
    "claude PreToolUse c_allow": ("ordinary rules", NO_ALLOW),
    "claude PreToolUse c_approve": ("ordinary rules", NO_ALLOW),
    "claude PreToolUse c_badjson": ("asks (hook failed)", CLOSED),
    "claude PreToolUse c_array": ("asks (hook failed)", CLOSED),
    "claude PreToolUse c_timeout": ("asks (hook failed)", CLOSED),
    "claude PreToolUse c_stop": ("blocked", OBEYED),
    "codex PermissionRequest r_allow": ("asks a person", f"{NO_ALLOW}, unless the user has set `may_allow`"),
    "codex UserPromptSubmit u_badjson": ("asks (hook failed)", CLOSED),
    "codex UserPromptSubmit u_exit1": ("asks (hook failed)", CLOSED),
    "claude UserPromptSubmit u_badjson": ("asks (hook failed)", CLOSED),
    "codex Stop s_text": ("stops", ONE_MEANING),
    "claude PostToolUse p_exit1": ("nothing (hook failed)", "a hook that fails is told to those who watch"),
    "claude PostToolUse p_badjson": ("nothing (hook failed)", "a hook that fails is told to those who watch"),
}
SAME = {"runs": "ordinary rules", "runs (hook failed)": "ordinary rules (hook failed)"}  # codex ran without any question


def name_of(case: Mapping[str, Any]) -> str:
    return f"{case['program']} {case['event']} {case['case']}"


def ran(hook: Mapping[str, Any]) -> Ran:
    out = hook.get("out", "")
    text = out if isinstance(out, str) else json.dumps(out)
    late = "hook timed out after 3s" if hook.get("sleep") else None
    return Ran(hook.get("exit", 0), text, hook.get("err", ""), late)


def did(event: str, program: str, answer: HookAnswer) -> str:
    failed = " (hook failed)" if answer.status == "failed" else ""
    match event:
        case "PreToolUse":
            if answer.changed is not None and answer.decision in ("none", "allow"):
                return "runs changed"
            return {"deny": "blocked", "ask": "asks"}.get(answer.decision, "ordinary rules") + failed
        case "PermissionRequest":
            return ("denied" if answer.decision == "deny" else "asks a person") + failed
        case "UserPromptSubmit":
            if answer.decision in ("deny", "ask"):
                return ("no request" if answer.decision == "deny" else "asks") + failed
            return "request" + (" with context" if answer.context else " and warning" if answer.warning else "")
        case "Stop":
            return ("goes on" if answer.decision == "deny" else "stops") + failed
        case _:
            if answer.ends_turn:
                return "the turn ends"
            if answer.decision == "deny":
                return "output replaced" if program == "codex" else "told"
            if answer.output is not None:
                return "output replaced"
            return ("context" if answer.context else "warning" if answer.warning else "nothing") + failed


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_recorded_answer_means_the_same_here_or_there_is_a_reason(case: Mapping[str, Any]) -> None:
    answer = read_answer(case["event"], case["program"], ran(case["hook"]))
    ours = did(case["event"], case["program"], answer)
    recorded = SAME.get(case["did"], case["did"])
    expected, reason = DIFFERENT.get(name_of(case), (recorded, "the same"))
    assert ours == expected, reason
    if name_of(case) in DIFFERENT:
        assert ours != recorded, "there is no difference any more"
    if ours == recorded and ours in ("blocked", "denied") and case.get("words") not in (None, "No stderr output"):
        assert answer.reason == case["words"]  # never the hook's command line


def test_every_difference_is_of_a_case() -> None:
    assert set(DIFFERENT) <= {name_of(case) for case in CASES}


SPECIFIC: list[dict[str, Any]] = [
    {"permissionDecision": "deny", "permissionDecisionReason": "no"},
    {"decision": {"behavior": "deny", "message": "no"}},
    {"decision": "block", "reason": "no"},
]


@pytest.mark.parametrize("specific", SPECIFIC)
@pytest.mark.parametrize("named", [None, "PreToolUse", "UserPromptSubmit", "Stop", 5])
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreCompact"])
def test_a_no_in_the_words_of_another_event_is_a_no(event: Any, named: object, specific: dict[str, Any]) -> None:
    out = {"hookSpecificOutput": {**({} if named is None else {"hookEventName": named}), **specific}}
    answer = read_answer(event, "claude", Ran(0, json.dumps(out), ""))
    assert (answer.decision, answer.reason) == ("deny", "no")


@pytest.mark.parametrize("specific", [{"permissionDecision": "allow"}, {"additionalContext": "x"}, {"permissionDecision": "ask"}])
@pytest.mark.parametrize("family", ["codex", "claude"])
def test_whatever_else_is_meant_for_another_event_is_a_failure_of_a_guard(family: Any, specific: dict[str, Any]) -> None:
    out = json.dumps({"hookSpecificOutput": {"hookEventName": "Stop", **specific}})
    for event in ("PreToolUse", "UserPromptSubmit"):
        assert read_answer(event, family, Ran(0, out, "")).decision == "ask"
    asked = read_answer("PermissionRequest", family, Ran(0, out, ""))
    assert (asked.status, asked.decision) == ("failed", "none")  # a person is asked
