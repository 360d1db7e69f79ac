"""`policy check` and `policy test`: what people are told about their rules."""

import tomllib

import msgspec
import pytest

from tests.policy.threat_cases import HOME, PROJECT
from understudy.errors import ConfigError
from understudy.policy.check import Situation, check_command, check_files, describe, explain, run_cases
from understudy.policy.decide import Verdict
from understudy.policy.rules import parse_rules
from understudy.protocol.choices import ApprovalPolicy, SandboxMode

RULES = parse_rules(
    [
        {"name": "no-push", "prefix": ["git", "push"], "decision": "deny", "reason": "pushing is mine"},
        {"name": "tests", "prefix": ["npm", "test"], "decision": "allow", "network": "loopback"},
    ],
    source="config.toml",
    home=HOME,
)
SITUATION = Situation(
    cwd=PROJECT,
    project=(PROJECT,),
    approval_policy="untrusted",
    sandbox_mode="workspace-write",
    rules=RULES,
    home=HOME,
    protected=(".git", "/home/me/.codex"),
)


def test_a_command_is_checked_the_way_a_models_is() -> None:
    assert describe(check_command(("git", "push"), SITUATION), "off") == (
        ("decision", "deny"),
        ("rule", "no-push"),
        ("reason", "pushing is mine"),
    )
    assert describe(check_command(("npm", "test"), SITUATION), "off") == (
        ("decision", "allow"),
        ("rule", "tests"),
        ("reason", "allowed by the rule tests"),
        ("runs", "in the sandbox, without a question"),
        ("network", "loopback"),
        ("network from", "the rule tests"),
    )
    assert describe(check_command(("make",), SITUATION), "off")[-1] == ("runs", "outside the sandbox, if approved")


@pytest.mark.parametrize(
    ("paths", "action", "rule"),
    [
        (["a.py"], "ask", "untrusted"),
        ([".git/config"], "ask", "protected"),
        ([".GIT/config"], "ask", "protected"),
        (["/home/me/.codex/config.toml"], "ask", "protected"),
        ([], "deny", "empty-patch"),
    ],
)
def test_files_are_checked_as_a_patch_would_be(paths: list[str], action: str, rule: str) -> None:
    verdict = check_files(paths, SITUATION)
    assert (verdict.action, verdict.rule) == (action, rule)


TESTS = """
[defaults]
approval_policy = "untrusted"

[[case]]
command = ["git", "push", "--force"]
expect = "deny"
rule = "no-push"

[[case]]
name = "tests run unasked"
script = "cd web && npm test"
expect = "allow"
contained = true

[[case]]
command = ["make"]
approval_policy = "on-request"
escalated = true
expect = "allow"

[[case]]
files = ["../x"]
approval_policy = "never"
expect = "deny"
"""


def test_a_file_of_cases_is_run_and_what_does_not_hold_is_told() -> None:
    outcomes = run_cases(tomllib.loads(TESTS), SITUATION, source="rules.test.toml")
    assert [(outcome.name, outcome.problems) for outcome in outcomes] == [
        ("git push --force", ()),
        ("tests run unasked", ()),
        ("make", ("decision is ask, expected allow",)),
        ("../x", ()),
    ]
    assert isinstance(outcomes[0].verdict, Verdict)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.toml: expected at least one `[[case]]`"),
        ("cases = 1", "t.toml: `cases` is not known here"),
        ("[[case]]\nexpect = 'ask'", "t.toml: case[1]: expected one of `command`, `script` or `files`"),
        ("[[case]]\ncommand = ['a']", "t.toml: case[1].expect is missing"),
        ("[[case]]\ncommand = 'a'\nexpect = 'ask'", "t.toml: case[1].command: expected a list of texts"),
        ("[[case]]\ncommand = ['a']\nexpect = 'maybe'", "t.toml: case[1].expect is 'maybe'. Expected `allow`, `ask` or `deny`"),
        ("[[case]]\ncommand = ['a']\nexpects = 'ask'", "t.toml: case[1]: `expects` is not known here"),
        ("[defaults]\nsandbox_mode = 'x'\n[[case]]\ncommand = ['a']\nexpect = 'ask'", "t.toml: defaults.sandbox_mode is 'x'"),
    ],
)
def test_a_case_that_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        run_cases(tomllib.loads(text), SITUATION, source="t.toml")
    assert message in str(raised.value)


HELD = "Allowed is not harmless: it may do what the sandbox lets any command do."
REACH = f"It can change files in {PROJECT} and in a /tmp of its own, and nothing else."
RETRIED = "If the sandbox refuses it something, you are asked whether it may run outside."
EXPLAINED: dict[tuple[ApprovalPolicy, SandboxMode, str], str] = {
    ("on-request", "workspace-write", "rm -rf x"): (
        f"{HELD} {REACH} To run it outside the sandbox, the model would have to ask you."
    ),
    ("on-failure", "workspace-write", "rm -rf x"): f"{HELD} {REACH} {RETRIED}",
    ("never", "workspace-write", "rm -rf x"): f"{HELD} {REACH} It cannot leave the sandbox under this policy.",
    ("untrusted", "read-only", "ls"): f"The question is spared; the sandbox is not. It can change nothing. {RETRIED}",
    ("never", "danger-full-access", "rm x"): "Nothing holds it back: it runs with all rights of the account that runs understudy.",
    ("never", "workspace-write", "git push"): "It does not run, and nobody is asked.",
    ("untrusted", "workspace-write", "rm x"): (
        "Nothing runs before a person has said yes. That takes this one command out of the sandbox, and the question says so."
    ),
}


@pytest.mark.parametrize(("policy", "mode", "line"), EXPLAINED)
def test_a_verdict_explains_itself(policy: ApprovalPolicy, mode: SandboxMode, line: str) -> None:
    """`allow` for `rm -rf x` startles whoever does not know that the sandbox holds it."""
    situation = msgspec.structs.replace(SITUATION, approval_policy=policy, sandbox_mode=mode)
    assert explain(check_command(tuple(line.split()), situation), situation) == EXPLAINED[policy, mode, line]
