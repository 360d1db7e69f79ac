"""The question that a hook asks, or its failure: it outlives the process that asked it, and every door can show and answer it."""

from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.e2e.hooks.stage import HookStage
from understudy.policy.question_text import kind_of, question_text, what_yes_lifts, why_asked, why_beyond_text
from understudy.protocol.records import HookApprovalAsked
from understudy.servers.acp.session import options
from understudy.servers.app_server.question_requests import question_request
from understudy.servers.rest.events import shown_question
from understudy.testing import call, say

KEY = "/h/settings.json:pre_tool_use:0:0"
ASKED = HookApprovalAsked("c1", "PreToolUse", KEY, "Bash", "rm -rf x\n\x1b[31m", "it crashed", failed=True)


def test_every_door_can_show_it() -> None:
    shown = shown_question(ASKED, "1", 0.0, "/", 0)
    assert (shown.kind, shown.hook, shown.tool) == ("hook", ASKED.hook, "Bash")
    assert [choice.decision for choice in shown.choices] == ["approved", "denied", "abort"]
    assert len(options(ASKED)) == 3
    method, params = question_request(ASKED, "t", "1", "i", "/", 0)
    assert method == "mcpServer/elicitation/request"
    for text in (question_text(ASKED, "/"), str(params["message"]), shown.text):
        assert "rm -rf x" in text
        assert ASKED.hook in text
        assert "\x1b" not in text
    assert "has failed" in why_asked(ASKED)
    assert "rules and sandbox hold" in what_yes_lifts(ASKED)
    assert (kind_of(ASKED), why_beyond_text(ASKED)) == ("hook", None)


@pytest.mark.slow
async def test_it_is_answered_after_its_process_was_killed_and_the_guard_is_asked_again(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    stage.install("PreToolUse", stage.program("sys.exit(9)"), "Bash")
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
    async with stage.serve([call("shell", command=["touch", "made"]), say("It is made.")], config=config) as (_, client):
        client.codex("go")
        await client.next_question()
        await client.kill()
        program = Program(stage.home, stage.work)
        [one] = program.json("approvals", "--json")
        assert (one["kind"], one["hook"]) == ("hook", f"{tmp_path}/user/.claude/settings.json:pre_tool_use:0:0")
        ended = await program.run_aside("approvals", "answer", one["conversation_id"][:8], "yes")
        assert "It is made." in ended.out, ended
    assert (stage.work / "made").exists()
    assert len(stage.told()) == 2
