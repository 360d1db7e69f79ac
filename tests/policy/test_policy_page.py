"""The examples in docs/policy.md work as they stand."""

import re
import tomllib
from pathlib import Path

from tests.policy.threat_cases import HOME, PROJECT
from understudy.policy.check import Situation, check_command, describe, explain, run_cases
from understudy.policy.rules import parse_rules

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"


def test_the_rules_and_their_tests_hold() -> None:
    text = PAGE.read_text()
    config, cases = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL))
    rules = parse_rules(config["policy"]["rules"], source="config.toml", home=HOME)
    situation = Situation(PROJECT, (PROJECT,), "on-request", "workspace-write", rules, home=HOME)
    outcomes = run_cases(cases, situation, source="rules.test.toml")
    assert [outcome.problems for outcome in outcomes] == [()] * 4
    printed = [f"{name:<10}{value}" for name, value in describe(check_command(("git", "push", "--force"), situation), "off")]
    assert "\n".join(printed) in text
    verdict = check_command(("rm", "-rf", "x"), situation)
    lines = [*describe(verdict, "off"), ("approval policy", "on-request"), ("sandbox mode", "workspace-write")]
    lines.append(("means", explain(verdict, situation)))
    assert "\n".join(f"{name:<17}{value}" for name, value in lines).replace(PROJECT, "/home/me/project") in text
