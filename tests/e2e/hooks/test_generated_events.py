"""Hook programs that crash, hang, flood, fork and lie around messages, questions, ends of turns and summaries, at several doors.

Every turn comes to its end; what a failed guard watches does not happen; what no guard watches goes on.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hooks.stage import HookStage
from tests.e2e.hooks.test_generated import by_app_server, by_exec, by_mcp
from understudy.testing import CodexHome, McpProcess, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

MISDEEDS = {
    "crash": "sys.exit(3)",
    "killed": "os.kill(os.getpid(), 9)",
    "hang": "time.sleep(60)",
    "flood": "sys.stdout.write('x' * 5_000_000)",
    "flood_errors": "sys.stderr.write('x' * 5_000_000); sys.exit(1)",
    "fork": "subprocess.Popen(['sh', '-c', 'sleep 1; touch ' + sys.argv[1]], start_new_session=True); sys.exit(1)",
    "lies_json": 'print(\'{"permission": "granted"}\')',
    "lies_event": 'print(\'{"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}}\')',
    "half": 'sys.stdout.write(\'{"decision": "appr\')',
    "list": "print('[1]')",
    "deep": "print('[' * 100_000)",
    "not_text": "sys.stdout.buffer.write(b'{\\xff\\xfe}')",
    "closes": "os.close(0); os.close(1); os.close(2); time.sleep(60)",
}
GUARDS = ("UserPromptSubmit", "PermissionRequest")
OTHERS = ("Stop", "SessionStart", "PostToolUse", "PostToolUseFailure")
PROGRAM = "import json, os, subprocess, sys, time\nsaid = json.load(sys.stdin)\nopen(sys.argv[1] + '.ran', 'a').close()\n{body}\n"
DOORS = {"mcp": by_mcp, "exec": by_exec, "app-server": by_app_server}
ASKING: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}


def misdeed(stage: HookStage, event: str, body: str) -> Path:
    """Installed in the files of both programs. The path is that of what outlives it, where anything does."""
    script, left = stage.folder / f"{event}.py", stage.folder / f"{event}-left"
    script.write_text(PROGRAM.format(body=body))
    for file in (".claude/settings.json", ".codex/hooks.json"):
        stage.install(event, f"{sys.executable} {script} {left}", file=file, timeout=2)
    return left


def has_run(left: Path) -> bool:
    return left.with_name(f"{left.name}.ran").exists()


@pytest.mark.parametrize("name", MISDEEDS)
@pytest.mark.slow
async def test_a_message_goes_nowhere_where_its_guard_fails(tmp_path: Path, name: str) -> None:
    stage = HookStage(tmp_path)
    left = misdeed(stage, "UserPromptSubmit", MISDEEDS[name])
    door = DOORS[sorted(DOORS)[len(name) % len(DOORS)]]
    async with ScriptedModel([]) as model:  # which is never asked
        CodexHome(stage.home, model, config={"approval_policy": "never"})
        await door(stage, model)
    assert has_run(left)
    assert not left.exists(), "a process of the hook outlived it"


@pytest.mark.parametrize("name", MISDEEDS)
@pytest.mark.slow
async def test_a_person_is_asked_where_the_guard_of_a_question_fails(tmp_path: Path, name: str) -> None:
    stage = HookStage(tmp_path)
    left = misdeed(stage, "PermissionRequest", MISDEEDS[name])
    script = [call("shell", command=["touch", "made"], with_escalated_permissions=True), say("x")]
    async with stage.serve(script, config=ASKING, decide="denied", wait_seconds=4 * WAIT_SECONDS) as (_, client):
        await client.codex("go")
        assert len(client.questions) == 1
    assert has_run(left)
    assert not (stage.work / "made").exists()
    assert not left.exists(), "a process of the hook outlived it"


@pytest.mark.parametrize("name", MISDEEDS)
@pytest.mark.slow
async def test_the_turn_goes_on_where_what_only_listens_fails(tmp_path: Path, name: str) -> None:
    stage = HookStage(tmp_path)
    lefts = [misdeed(stage, event, MISDEEDS[name]) for event in OTHERS]
    bad = "*** Begin Patch\n*** Update File: none\n@@\n-x\n+y\n*** End Patch\n"
    script = [call("shell", call_id="c1", command=["true"]), call("apply_patch", call_id="c2", input=bad), say("x")]
    async with ScriptedModel(script) as model:
        home = CodexHome(stage.home, model, config={"approval_policy": "never", "sandbox_mode": "workspace-write"})
        async with McpProcess(cwd=stage.work, home=home.path, wait_seconds=8 * WAIT_SECONDS) as client:
            result = await client.codex("go")
    assert result["structuredContent"]["content"] == "x"
    assert [has_run(left) for left in lefts] == [True] * len(OTHERS)
    assert not any(left.exists() for left in lefts)
