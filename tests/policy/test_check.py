"""`policy check` and `policy test`: what people are told about their rules."""

import tomllib

import pytest

from tests.policy.threat_cases import HOME, PROJECT
from understudy.errors import ConfigError
from understudy.policy.check import Situation, check_command, check_files, describe, run_cases
from understudy.policy.rules import parse_rules
from understudy.policy.verdicts import Verdict

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
    assert describe(check_command(("git", "push"), SITUATION)) == (
        ("decision", "deny"),
        ("rule", "no-push"),
        ("reason", "pushing is mine"),
    )
    assert describe(check_command(("npm", "test"), SITUATION)) == (
        ("decision", "allow"),
        ("rule", "tests"),
        ("reason", "allowed by the rule tests"),
        ("runs", "in the sandbox"),
        ("network", "loopback"),
    )
    assert describe(check_command(("make",), SITUATION))[-1] == ("runs", "outside the sandbox, if approved")


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
