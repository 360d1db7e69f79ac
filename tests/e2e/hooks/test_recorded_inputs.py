"""What hooks of both families are told on standard input, member by member, against the recordings; each difference has a reason.

The recordings are of codex 0.169.0 and Claude Code 2.1.327.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hooks.stage import HookStage
from tests.e2e.other_servers import server
from tests.support.rest_client import serving_rest
from understudy.testing import ScriptedModel, call, say

PATCH = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
BAD_PATCH = "*** Begin Patch\n*** Update File: none.txt\n@@\n-x\n+y\n*** End Patch\n"

OF_CODEX = {"session_id", "transcript_path", "cwd", "hook_event_name", "model", "permission_mode"}
OF_CLAUDE = {"session_id", "transcript_path", "cwd", "hook_event_name"}
OF_CLAUDES_CALL = OF_CLAUDE | {"prompt_id", "permission_mode", "effort"}
CALLED = {"tool_name", "tool_input", "tool_use_id"}

# by event, as they were recorded
CODEX: Mapping[str, set[str]] = {
    "SessionStart": OF_CODEX | {"source"},
    "UserPromptSubmit": OF_CODEX | {"turn_id", "prompt"},
    "PreToolUse": OF_CODEX | {"turn_id"} | CALLED,
    "PermissionRequest": OF_CODEX | {"turn_id", "tool_name", "tool_input"},
    "PostToolUse": OF_CODEX | {"turn_id", "tool_response"} | CALLED,
    "PreCompact": (OF_CODEX - {"permission_mode"}) | {"turn_id", "trigger"},
    "Stop": OF_CODEX | {"turn_id", "stop_hook_active", "last_assistant_message"},
}
CLAUDE: Mapping[str, set[str]] = {
    "SessionStart": OF_CLAUDE | {"source"},
    "UserPromptSubmit": OF_CLAUDE | {"prompt_id", "permission_mode", "prompt"},
    "PreToolUse": OF_CLAUDES_CALL | CALLED,
    "PermissionRequest": OF_CLAUDES_CALL | {"tool_name", "tool_input", "permission_suggestions"},
    "PostToolUse": OF_CLAUDES_CALL | CALLED | {"tool_response", "duration_ms"},
    "PostToolUseFailure": OF_CLAUDES_CALL | CALLED | {"error", "is_interrupt", "duration_ms"},
    "Stop": OF_CLAUDES_CALL | {"stop_hook_active", "last_assistant_message", "background_tasks", "session_crons"},
}
FILES = {"codex": ".codex/hooks.json", "claude": ".claude/settings.json"}
RECORDED = {"codex": CODEX, "claude": CLAUDE}

BESIDES = {"exit_code": "Claude Code's hooks hear of a command that fails by another event; ours, as codex, by this one"}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["codex", "claude"])
async def test_what_hooks_are_told_has_the_recorded_members(tmp_path: Path, family: str) -> None:
    stage = HookStage(tmp_path)
    for event in {*CODEX, *CLAUDE}:
        stage.install(event, stage.program("", event), file=FILES[family])
    script = [
        call("shell", call_id="c1", command=["sh", "-c", f"echo boo; exit {3 if family == 'codex' else 0}"]),
        call("apply_patch", call_id="c2", input=PATCH),
        call("apply_patch", call_id="c3", input=BAD_PATCH),
        call("srv__ok", call_id="c4", s="x"),
        call("shell", call_id="c5", command=["touch", "b"], with_escalated_permissions=True, justification="please"),
        say("Done."),
        say("A summary."),
    ]
    config = {"approval_policy": "on-request", "sandbox_mode": "workspace-write", **server("srv")}
    async with stage.serve(script, config=config, decide="approved") as (_, client):
        thread = (await client.codex("go"))["structuredContent"]["threadId"]
        await client.call_tool("conversationCompact", conversationId=thread)
    wrong: list[str] = []
    for event, expected in RECORDED[family].items():
        told = stage.told(event)
        if not told:
            wrong.append(f"{event} did not run")
        for said in told:
            about: set[str] = {"mcp_server"} & set(said) if str(said.get("tool_name", "")).startswith("mcp__") else set()
            wrong += [f"{event} lacks {name}" for name in expected - set(said)]
            wrong += [f"{event} has {name}" for name in set(said) - expected - about]
    assert not wrong, sorted(set(wrong))
    assert [said["tool_name"] for said in stage.told("PostToolUse")][:2] == [
        "Bash",
        "apply_patch" if family == "codex" else "Write",
    ]
    responses: list[Any] = [said["tool_response"] for said in stage.told("PostToolUse")]
    if family == "codex":
        assert responses[0] == "boo\n"
        assert set(responses[2]) == {"content", "isError"}
        assert responses[1] == "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA a.txt\n"
    else:
        assert set(responses[0]) - set(BESIDES) == {"stdout", "stderr", "interrupted", "isImage", "noOutputExpected"}
        assert responses[0]["stdout"] == "boo"
        assert set(responses[1]) == {"type", "filePath", "content", "structuredPatch", "originalFile", "userModified"}
        assert isinstance(responses[2], list)
        assert stage.told("Stop")[0]["effort"] == {"level": "medium"}


async def test_a_hook_is_told_that_only_a_plan_is_made(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    for family, file in FILES.items():
        stage.install("UserPromptSubmit", stage.program("", family), file=file)
    async with ScriptedModel([say("Hm.")]) as model, serving_rest(tmp_path, model) as (serving, client):
        row = await client.create(serving.cwd, "plan it", mode="plan")
        await (await client.stream(row["id"])).until("task_complete")
    assert [stage.told(family)[0]["permission_mode"] for family in FILES] == ["plan", "plan"]
