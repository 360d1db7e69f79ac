"""Every known trick, against the decision that a command under `untrusted` meets."""

import msgspec
import pytest

from tests.policy.threat_cases import FACTS, PROJECT, THREAT_CASES, ThreatCase
from understudy.policy.approvals import approval_key, environment_digest
from understudy.policy.decide import CommandFacts, decide_command
from understudy.policy.rules import parse_rules
from understudy.policy.words import Words


def _name(case: ThreatCase) -> str:
    return f"{case.row} {' '.join(case.argv)[:60]!a}"


@pytest.mark.parametrize("case", THREAT_CASES, ids=_name)
def test_a_command_that_may_do_more_than_read_is_asked_about(case: ThreatCase) -> None:
    verdict = decide_command(case.given())
    assert verdict.action == case.expected, verdict


@pytest.mark.parametrize("case", THREAT_CASES, ids=_name)
def test_nothing_leaves_the_sandbox_unasked(case: ThreatCase) -> None:
    for policy in ("untrusted", "on-failure", "on-request", "never"):
        for mode in ("read-only", "workspace-write"):
            verdict = decide_command(msgspec.structs.replace(case.given(), approval_policy=policy, sandbox_mode=mode))
            assert verdict.contained or verdict.action == "ask", verdict


def test_every_row_up_to_37_has_a_case() -> None:
    assert {case.row for case in THREAT_CASES} == {f"S{number}" for number in range(1, 38)}


KEYED: tuple[Words, str, str] = (("make",), PROJECT, environment_digest({"A": "b"}))


def test_s38_an_approval_covers_the_exact_command_place_environment_and_mode() -> None:
    argv, cwd, env = KEYED
    same = approval_key(argv, cwd, env, "workspace-write")
    assert same == approval_key(("make",), PROJECT, environment_digest({"A": "b"}), "workspace-write")
    others = {
        approval_key(("make", "x"), cwd, env, "workspace-write"),
        approval_key(("make x",), cwd, env, "workspace-write"),
        approval_key(argv, cwd + "/sub", env, "workspace-write"),
        approval_key(argv, cwd, environment_digest({"A": "c"}), "workspace-write"),
        approval_key(argv, cwd, environment_digest({"Ab": ""}), "workspace-write"),
        approval_key(argv, cwd, env, "read-only"),
        approval_key((), cwd, env, "workspace-write"),
    }
    assert len(others) == 7
    assert same not in others


def test_s38_what_was_approved_for_the_session_runs_unasked_and_uncontained() -> None:
    verdict = decide_command(msgspec.structs.replace(FACTS, argv=("make",), approved=True))
    assert (verdict.action, verdict.contained, verdict.rule) == ("allow", False, "approved-for-session")


GIT = parse_rules([{"prefix": ["git"], "decision": "allow"}], source="config.toml", home="/home/me")


@pytest.mark.parametrize(
    ("argv", "action"),
    [
        (("git", "status"), "allow"),
        (("bash", "-lc", "git status"), "allow"),
        (("bash", "-lc", "git status && git log | wc -l"), "allow"),
        (("git-evil",), "ask"),
        (("git-evil", "status"), "ask"),
        (("git status; rm",), "ask"),
        (("bash", "-lc", "git status; rm -rf x"), "ask"),
        (("bash", "-lc", "git status $(rm x)"), "ask"),
        (("bash", "-lc", "git status > F"), "ask"),
        (("./git", "status"), "ask"),
        (("/tmp/git", "status"), "ask"),
        (("GIT", "status"), "ask"),
        (("env", "git", "status"), "ask"),
        (("/tmp/bash", "-lc", "git status"), "ask"),
    ],
)
def test_s39_an_allow_rule_holds_for_its_words_only(argv: Words, action: str) -> None:
    facts: CommandFacts = msgspec.structs.replace(FACTS, argv=argv, rules=GIT)
    assert decide_command(facts).action == action
