"""`understudy policy check` says what the sandbox will refuse by protection."""

import json

import pytest

from tests.cli.program import Program


@pytest.mark.parametrize(
    ("words", "warned"), [("git commit -m x", True), ("git -C . add f", True), ("git status", False), ("ls .git", False)]
)
def test_policy_check_says_what_protection_refuses(program: Program, words: str, warned: bool) -> None:
    settings = ("-c", 'sandbox_mode="workspace-write"', "-c", 'approval_policy="on-request"')
    told = json.loads(program.run("policy", "check", "--json", *settings, "--", *words.split()).out)
    assert ('protect = ["!.git"]' in told["means"]) == warned
