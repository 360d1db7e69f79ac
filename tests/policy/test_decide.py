"""Ask, run, contain: the whole table of decisions."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.policy.threat_cases import FACTS, PROJECT
from understudy.policy.decide import (
    RETRY_REASON,
    PatchFacts,
    Verdict,
    decide_command,
    decide_patch,
    escalation_after_denial,
)
from understudy.policy.rules import NO_RULES, parse_rules
from understudy.policy.words import Words
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES, ApprovalPolicy, SandboxMode

MAKE: Words = ("make",)
LS: Words = ("ls",)


def _decide(policy: ApprovalPolicy, mode: SandboxMode, argv: Words = MAKE, **facts: Any) -> tuple[str, bool, str]:
    verdict = decide_command(replace(FACTS, argv=argv, approval_policy=policy, sandbox_mode=mode, **facts))
    return verdict.action, verdict.contained, verdict.rule


ASKED = ("ask", False, "untrusted")
SANDBOXED = ("allow", True, "sandbox")
FULL = ("allow", False, "full-access")


@pytest.mark.parametrize(
    ("policy", "mode", "expected"),
    [
        ("untrusted", "read-only", ASKED),
        ("untrusted", "workspace-write", ASKED),
        ("untrusted", "danger-full-access", ASKED),
        ("on-failure", "read-only", SANDBOXED),
        ("on-failure", "workspace-write", SANDBOXED),
        ("on-failure", "danger-full-access", FULL),
        ("on-request", "read-only", SANDBOXED),
        ("on-request", "workspace-write", SANDBOXED),
        ("on-request", "danger-full-access", FULL),
        ("never", "read-only", SANDBOXED),
        ("never", "workspace-write", SANDBOXED),
        ("never", "danger-full-access", FULL),
    ],
)
def test_an_ordinary_command_is_decided_by_policy_and_mode(
    policy: ApprovalPolicy, mode: SandboxMode, expected: tuple[str, bool, str]
) -> None:
    assert _decide(policy, mode) == expected


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_a_harmless_command_is_spared_the_question_and_not_the_sandbox(mode: SandboxMode) -> None:
    assert _decide("untrusted", mode, LS) == ("allow", True, "known-harmless")


def test_with_full_access_a_harmless_command_runs_as_all_do() -> None:
    assert _decide("untrusted", "danger-full-access", LS) == ("allow", False, "known-harmless")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("untrusted", ASKED),
        ("on-failure", ("ask", False, "no-sandbox")),
        ("on-request", ("ask", False, "no-sandbox")),
        ("never", ("deny", True, "no-sandbox")),
    ],
)
@pytest.mark.parametrize("argv", [MAKE, LS])
def test_where_nothing_can_be_contained_nothing_runs_unasked(
    policy: ApprovalPolicy, expected: tuple[str, bool, str], argv: Words
) -> None:
    assert _decide(policy, "workspace-write", argv, sandbox_available=False) == expected
    assert _decide("never", "danger-full-access", argv, sandbox_available=False) == FULL


def test_on_request_an_escalated_command_is_asked_about_with_the_models_words() -> None:
    facts = replace(FACTS, argv=MAKE, approval_policy="on-request", escalated=True, justification="to write next door")
    verdict = decide_command(facts)
    assert verdict == Verdict(
        "ask", False, "the model asks to run it outside the sandbox", "escalation", justification="to write next door"
    )
    assert decide_command(replace(facts, argv=LS)).action == "ask"  # even a harmless one would leave the sandbox


@pytest.mark.parametrize("policy", ["untrusted", "on-failure", "never"])
@pytest.mark.parametrize("argv", [MAKE, LS])
def test_under_any_other_policy_a_wish_to_escalate_changes_nothing(policy: ApprovalPolicy, argv: Words) -> None:
    assert _decide(policy, "workspace-write", argv, escalated=True, justification="let me") == _decide(
        policy, "workspace-write", argv
    )


@pytest.mark.parametrize(
    ("policy", "reason"), [("untrusted", RETRY_REASON), ("on-failure", RETRY_REASON), ("on-request", None), ("never", None)]
)
def test_after_a_denial_by_the_sandbox_only_some_policies_ask(policy: ApprovalPolicy, reason: str | None) -> None:
    assert escalation_after_denial(policy) == reason


OUTSIDE = "writing outside of the project; rejected by user approval settings"
READ_ONLY = "writing with a read-only sandbox; rejected by user approval settings"


@pytest.mark.parametrize(
    ("policy", "mode", "inside", "outside"),
    [
        ("untrusted", "read-only", "ask", "ask"),
        ("untrusted", "workspace-write", "ask", "ask"),
        ("untrusted", "danger-full-access", "ask", "ask"),
        ("on-failure", "read-only", "ask", "ask"),
        ("on-failure", "workspace-write", "allow", "ask"),
        ("on-failure", "danger-full-access", "allow", "allow"),
        ("on-request", "read-only", "ask", "ask"),
        ("on-request", "workspace-write", "allow", "ask"),
        ("on-request", "danger-full-access", "allow", "allow"),
        ("never", "read-only", "deny", "deny"),
        ("never", "workspace-write", "allow", "deny"),
        ("never", "danger-full-access", "allow", "allow"),
    ],
)
def test_a_patch_is_decided_by_policy_mode_and_place(policy: ApprovalPolicy, mode: SandboxMode, inside: str, outside: str) -> None:
    assert decide_patch(PatchFacts(policy, mode)).action == inside
    assert decide_patch(PatchFacts(policy, mode, outside=True)).action == outside


def test_a_refused_patch_says_why() -> None:
    assert decide_patch(PatchFacts("never", "workspace-write", outside=True)).reason == OUTSIDE
    assert decide_patch(PatchFacts("never", "read-only")).reason == READ_ONLY
    assert decide_patch(PatchFacts("never", "workspace-write", empty=True)).reason == "empty patch"


def test_a_patch_in_the_roots_is_held_to_them_and_an_approved_one_is_not() -> None:
    assert decide_patch(PatchFacts("never", "workspace-write")).contained
    assert not decide_patch(PatchFacts("on-request", "workspace-write", outside=True)).contained


@pytest.mark.parametrize("mode", SANDBOX_MODES)
@pytest.mark.parametrize("policy", APPROVAL_POLICIES)
def test_a_protected_path_is_asked_about_everywhere_and_never_written_unasked(policy: ApprovalPolicy, mode: SandboxMode) -> None:
    verdict = decide_patch(PatchFacts(policy, mode, protected=True))
    assert verdict.action == ("deny" if policy == "never" else "ask")
    assert decide_patch(PatchFacts(policy, mode, protected=True, empty=True)).action == "deny"


RECORDED = [
    (("bash", "-lc", "ls && pwd; echo 'hi there' | wc -l"), "allow"),
    (("find", ".", "-delete"), "ask"),
    (("rg", "--pre=x", "y"), "ask"),
    (("git", "fetch"), "ask"),
    (("sed", "-n", "xp", "f"), "ask"),
    (("bash", "-lc", "ls > f"), "ask"),
    (("bash", "-lc", "FOO=bar ls"), "ask"),
    (("bash", "-lc", 'echo "$HOME"'), "ask"),
    (("bash", "-lc", "(ls)"), "ask"),
    (("bash", "-lc", "ls &"), "ask"),
    (("bash", "-c", "ls"), "ask"),
    (("/bin/ls",), "ask"),
]


@pytest.mark.parametrize(("argv", "action"), RECORDED)
def test_the_recorded_decisions_of_the_original_server_hold(argv: Words, action: str) -> None:
    assert decide_command(replace(FACTS, argv=argv, sandbox_mode="read-only")).action == action


def test_the_model_can_name_neither_project_nor_rules_nor_mode() -> None:
    """Only argv, cwd and the wish to escalate come from a call, and a folder chosen by the model is not the project."""
    verdict = decide_command(replace(FACTS, argv=("cat", "notes"), cwd="/home/me/elsewhere"))
    assert verdict.action == "ask"
    assert decide_command(replace(FACTS, argv=("cat", "notes"), cwd=PROJECT + "/sub")).action == "allow"


_argv = st.lists(
    st.one_of(
        st.text(max_size=12), st.sampled_from(["bash", "-lc", "sh", "env", "cat", "find", "rg", "cd", "ls && git push", "/", ""])
    ),
    max_size=6,
)
_RULES = parse_rules(
    [
        {"prefix": ["git", "push"], "decision": "deny"},
        {"pattern": ["**", "x*", "**"], "decision": "ask"},
        {"prefix": ["make"], "paths": ["web"], "decision": "allow", "network": "on"},
    ],
    source="config.toml",
    home="/home/me",
)


@given(_argv, st.text(max_size=12), st.sampled_from(get_args(ApprovalPolicy)), st.sampled_from(get_args(SandboxMode)))
def test_every_command_gets_a_verdict_and_none_leaves_its_sandbox_unasked(
    argv: list[str], cwd: str, policy: ApprovalPolicy, mode: SandboxMode
) -> None:
    for rules in (NO_RULES, _RULES):
        facts = replace(FACTS, argv=tuple(argv), cwd=cwd, approval_policy=policy, sandbox_mode=mode, rules=rules)
        verdict = decide_command(facts)
        assert verdict.contained or verdict.action == "ask" or mode == "danger-full-access"
        assert not (policy == "never" and verdict.action == "ask")
