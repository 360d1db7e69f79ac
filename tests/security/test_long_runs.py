"""What models and repositories write holds nobody up by a run of blanks: time grows with the text, not with its square."""

import json
import time

import pytest

from understudy.cli.chat.markdown import MarkdownStream
from understudy.engine.activity.steps import files_of
from understudy.engine.turn.answer_form import without_fence
from understudy.places.ignoring import IgnoreRules
from understudy.protocol.items import FunctionCall

BLANKS = " " * 500_000  # gone through again for each of them, they would take a quarter of an hour
ENOUGH = 20.0  # seconds of computing


@pytest.mark.parametrize(
    "read",
    [
        lambda: MarkdownStream().feed(f"```{BLANKS}`\n"),
        lambda: without_fence(f"```\n{BLANKS}x"),
        lambda: IgnoreRules(f"{BLANKS}x\n"),
        lambda: files_of(FunctionCall("apply_patch", json.dumps({"input": f"*** Add File: {BLANKS}x\n"}), "c1")),
    ],
    ids=["a fence in chat", "a fence around JSON", "a .gitignore", "a patch that was refused"],
)
def test_a_long_run_of_blanks_is_gone_through_once(read: object) -> None:
    assert callable(read)
    began = time.process_time()
    read()
    assert time.process_time() - began < ENOUGH


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n{}\n```", "{}"),
        ("  ```\n{} \n \t```\n\n", "{} "),
        ("```\n```", ""),
        ("```\nx````", "x`"),
        ("```{}```", "```{}```"),
        ("```", "```"),
        ("``` x\n{}\n```", "``` x\n{}\n```"),
        ("{}", "{}"),
    ],
)
def test_a_fence_around_the_whole_answer_is_taken_off(text: str, inside: str) -> None:
    assert without_fence(text) == inside


@pytest.mark.parametrize(("line", "rule"), [("a  ", "a"), ("a\\  ", "a "), ("  a", "  a"), ("\\ ", " ")])
def test_blanks_at_the_end_of_a_rule_count_only_if_they_are_escaped(line: str, rule: str) -> None:
    assert IgnoreRules(f"{line}\n").leave_out(rule, rule, False) is True
