"""Hooks before and after calls of the model: they see what runs, keep it from running, change it, and fail closed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hooks.stage import HookStage, answer
from tests.e2e.scenes import text_of, told_to_model
from tests.sandbox.stage import until
from understudy.testing import call, say
from understudy.testing.waiting import WAIT_SECONDS

ASKING: dict[str, Any] = {"approval_policy": "on-request", "sandbox_mode": "workspace-write"}
NO = "sys.stderr.write('not here'); sys.exit(2)"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n"


@pytest.fixture
def stage(tmp_path: Path) -> HookStage:
    return HookStage(tmp_path)


async def test_a_guard_is_told_of_a_command_and_keeps_it_from_running(stage: HookStage) -> None:
    stage.install("PreToolUse", stage.program(NO), "Bash")
    async with stage.serve([call("shell", command=["bash", "-lc", "touch made"]), say("x")]) as (model, client):
        await client.codex("go")
        told = told_to_model(model.requests[1])
        assert told == "Command blocked by PreToolUse hook: not here. Command: touch made"
    [said] = stage.told()
    assert not (stage.work / "made").exists()
    expected = {
        "tool_name": "Bash",
        "tool_input": {"command": "touch made"},
        "tool_use_id": "call1",
        "hook_event_name": "PreToolUse",
    }
    assert said.items() >= {**expected, "cwd": str(stage.work), "permission_mode": "bypassPermissions"}.items()
    assert not {name for name in stage.environment() if "TOKEN" in name or "KEY" in name}


TOOLS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("shell", {"command": ["ls", "a b"]}, "Bash", {"command": "ls 'a b'"}),
    ("exec_command", {"cmd": "ls"}, "Bash", {"command": "ls"}),
    ("exec_command", {"cmd": "ls", "shell": "./sh"}, "Bash", {"command": "./sh -lc ls"}),
    ("write_stdin", {"session_id": 7, "chars": "ls\n"}, "Bash", {"command": "ls\n", "session_id": 7}),
    ("apply_patch", {"input": PATCH}, "Write", {"file_path": "WORK/made.txt", "content": "x\n"}),
    ("shell", {"command": ["apply_patch", PATCH]}, "Write", {"file_path": "WORK/made.txt", "content": "x\n"}),
    (
        "edit_file",
        {"path": "a", "old_text": "1", "new_text": "2"},
        "Edit",
        {"file_path": "WORK/a", "old_string": "1", "new_string": "2", "replace_all": False},
    ),
    ("read_file", {"path": "a"}, "Read", {"file_path": "WORK/a"}),
    ("search", {"pattern": "x"}, "Grep", {"pattern": "x"}),
    ("list_files", {}, "Glob", {"pattern": "**/*"}),
    ("view_image", {"path": "a.png"}, "Read", {"file_path": "WORK/a.png"}),
    ("update_plan", {"plan": []}, "TodoWrite", {"plan": []}),
]


async def test_every_tool_is_kept_back_under_the_name_that_a_guard_knows(stage: HookStage) -> None:
    for name in sorted({name for _, _, name, _ in TOOLS}):
        stage.install("PreToolUse", stage.program(NO, name), name)
    script = [call(tool, call_id=f"c{number}", **given) for number, (tool, given, _, _) in enumerate(TOOLS)]
    async with stage.serve([*script, say("x")]) as (model, client):
        await client.codex("go")
        for number in range(len(TOOLS)):
            assert "blocked by PreToolUse hook: not here" in told_to_model(model.requests[-1], f"c{number}")
    for number, (_, _, name, told) in enumerate(TOOLS):
        [seen] = [said for said in stage.told(name) if said["tool_use_id"] == f"c{number}"]
        expected = json.loads(json.dumps(told).replace("WORK", str(stage.work)))
        assert (seen["tool_name"], seen["tool_input"]) == (name, expected)
    assert [path.name for path in stage.work.iterdir()] == []


async def test_what_a_hook_changed_is_what_other_hooks_see_and_what_runs(stage: HookStage) -> None:
    changed = answer(permissionDecision="allow", updatedInput={"command": "touch changed"})
    stage.install("PreToolUse", stage.program(f"if 'made' in str(said['tool_input']): {changed}", "changes"), "Bash")
    stage.install("PreToolUse", stage.program("if 'changed' in str(said['tool_input']): sys.exit(2)", "guards"), "Bash")
    async with stage.serve([call("shell", command=["touch", "made"]), say("x")]) as (model, client):
        await client.codex("go")
        assert "blocked" in told_to_model(model.requests[1])
    assert [said["tool_input"]["command"] for said in stage.told("guards")] == ["touch made", "touch changed"]
    assert list(stage.work.iterdir()) == []


@pytest.mark.slow
async def test_hooks_that_change_what_the_other_has_changed_come_to_an_end(stage: HookStage) -> None:
    changed = answer(permissionDecision="allow", updatedInput={"command": "COMMAND"})
    for name in ("one", "two"):
        body = changed.replace("'COMMAND'", f"said['tool_input']['command'] + ' {name}'")
        stage.install("PreToolUse", stage.program(body, name), "Bash")
    async with stage.serve([call("shell", command=["touch", "made"]), say("x")]) as (model, client):
        await client.codex("go")
        assert "hooks do not agree" in told_to_model(model.requests[1])
    assert list(stage.work.iterdir()) == []


FAILURES = {
    "crash": "sys.exit(9)",
    "signal": "os.kill(os.getpid(), 9)",
    "broken": "print('{\"decision\": ')",
    "unknown": 'print(\'{"verdict": "fine"}\')',
    "list": "print('[]')",
    "flood": "sys.stdout.write('x' * 3_000_000)",
}


@pytest.mark.slow
async def test_a_guard_that_fails_keeps_the_call_back_where_nobody_can_be_asked(stage: HookStage) -> None:
    for kind, body in FAILURES.items():
        stage.install("PreToolUse", stage.program(f"if 'm{kind}' in str(said['tool_input']): {body}", kind), "Bash")
    stage.install("PreToolUse", "exec /no/such/program", "Bash", **{"if": "Bash(touch mmissing)"})
    stage.install("PreToolUse", "sleep 60", "Bash", timeout=0.2, **{"if": "Bash(touch mslow)"})
    kinds = [*FAILURES, "missing", "slow"]
    script = [call("shell", call_id=kind, command=["touch", f"m{kind}"]) for kind in kinds]
    async with stage.serve([*script, say("x")]) as (model, client):
        await client.codex("go")
        for kind in kinds:
            told = told_to_model(model.requests[-1], kind)
            assert "the hook has failed" in told, (kind, told)
            assert ":pre_tool_use:" in told
            assert "nobody can be asked" in told
    assert list(stage.work.iterdir()) == []


@pytest.mark.parametrize("yes", [True, False])
async def test_a_person_is_asked_for_a_guard_that_fails_with_its_name(stage: HookStage, yes: bool) -> None:
    stage.install("PreToolUse", stage.program("sys.exit(9)"), "Bash")
    script = [call("shell", command=["touch", "made"]), say("x")]
    async with stage.serve(script, config=ASKING, decide="approved" if yes else "denied") as (model, client):
        await client.codex("go")
        told = told_to_model(model.requests[1])
        assert ("the hook has failed" in told) != yes
        [question] = [each.params for each in client.questions]
        assert question["codex_elicitation"] == "hook"
        assert "settings.json:pre_tool_use:0:0" in question["codex_reason"]
        assert "touch made" in question["message"]
    assert (stage.work / "made").exists() == yes


@pytest.mark.slow
async def test_what_a_hook_asks_is_asked_and_its_yes_lifts_nothing_else(stage: HookStage) -> None:
    stage.install("PreToolUse", stage.program(answer(permissionDecision="ask", permissionDecisionReason="are you sure")), "Bash")
    script = [call("shell", command=["touch", "made"], with_escalated_permissions=True), say("x")]
    async with stage.serve(script, config=ASKING, decide="approved") as (_, client):
        await client.codex("go")
        asked = [each.params["codex_elicitation"] for each in client.questions]
        assert asked == ["hook", "exec-approval"]
    assert (stage.work / "made").exists()


@pytest.mark.slow
async def test_hooks_run_at_once_and_the_first_no_in_the_file_is_told(stage: HookStage) -> None:
    for name in ("one", "two"):  # each opens its pipe, and waits for the other to do so
        os.mkfifo(stage.folder / name)
    meet = "open({first!r}, {how!r}); open({second!r}, {other!r}); sys.stderr.write({name!r}); sys.exit(2)"
    pipes = {"first": str(stage.folder / "one"), "second": str(stage.folder / "two")}
    stage.install("PreToolUse", stage.program(meet.format(**pipes, how="r", other="w", name="first"), "a"), "Bash")
    stage.install("PreToolUse", stage.program(meet.format(**pipes, how="w", other="r", name="second"), "b"), "Bash")
    async with stage.serve([call("shell", command=["ls"]), say("x")]) as (model, client):
        await client.codex("go")
        assert "hook: first." in told_to_model(model.requests[1])


@pytest.mark.slow
async def test_after_a_call_a_hook_may_say_something_or_take_the_output_away(stage: HookStage) -> None:
    stage.install(
        "PostToolUse", stage.program("if 'claude' in str(said['tool_input']): sys.exit(print('lint it', file=sys.stderr) or 2)")
    )
    codex = "if 'codex' in str(said['tool_input']): print(json.dumps({'decision': 'block', 'reason': 'nothing to see'}))"
    stage.install("PostToolUse", stage.program(codex, "codex"), file=".codex/hooks.json")
    stage.install("PostToolUseFailure", stage.program("", "failure"))
    script = [
        call("shell", call_id="a", command=["echo", "claude"]),
        call("shell", call_id="b", command=["echo", "codex"]),
        call("shell", call_id="c", command=["false"]),
        call("apply_patch", call_id="d", input="*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch\n"),
    ]
    async with stage.serve([*script, say("x")]) as (model, client):
        await client.codex("go")
        assert "claude" in (told := told_to_model(model.requests[-1], "a"))
        assert "lint it" in told
        assert told_to_model(model.requests[-1], "b") == "nothing to see"
    assert [said["tool_use_id"] for said in stage.told()] == ["a", "b"]
    assert [said["tool_use_id"] for said in stage.told("codex")] == ["a", "b", "c"]
    assert stage.told()[0]["tool_response"]["stdout"] == "claude"
    assert stage.told("codex")[1]["tool_response"] == "codex\n"
    [command, patch] = stage.told("failure")
    assert (command["tool_use_id"], command["error"]) == ("c", "Exit code 1")
    assert (patch["tool_use_id"], "none" in patch["error"]) == ("d", True)


@pytest.mark.slow
async def test_claude_codes_hooks_are_told_of_reads_and_edits_in_its_words(stage: HookStage) -> None:
    """As a run of Claude Code 2.1.327 told them; a line behind the last line break is not counted here."""
    stage.install("PostToolUse", stage.program(), "Read|Edit|Write")
    file, made = str(stage.work / "a.txt"), str(stage.work / "new.txt")
    Path(file).write_text("one\ntwo\nthree\n")
    patch = f"*** Begin Patch\n*** Update File: {file}\n@@\n-TWO\n+2\n*** Add File: {made}\n+hi\n*** End Patch\n"
    script = [
        call("read_file", call_id="r", path="a.txt"),
        call("edit_file", call_id="e", path="a.txt", old_text="two", new_text="TWO"),
        call("apply_patch", call_id="p", input=patch),
        call("read_file", call_id="part", path="a.txt", start_line=2, end_line=2),
        call("shell", call_id="w", command=["apply_patch", f"*** Begin Patch\n*** Add File: {file}\n+new\n*** End Patch\n"]),
    ]
    async with stage.serve([*script, say("x")], config={"sandbox_mode": "workspace-write"}) as (_, client):
        await client.codex("go")
    told = {(said["tool_use_id"], said["tool_name"]): said["tool_response"] for said in stage.told()}
    assert told["r", "Read"] == {
        "type": "text",
        "file": {"filePath": file, "content": "one\ntwo\nthree", "numLines": 3, "startLine": 1, "totalLines": 3},
    }
    assert told["part", "Read"]["file"] == {
        "filePath": file,
        "content": "2",
        "numLines": 1,
        "startLine": 2,
        "totalLines": 3,
    }
    assert told["e", "Edit"] == {
        "filePath": file,
        "oldString": "two",
        "newString": "TWO",
        "originalFile": "one\ntwo\nthree\n",
        "structuredPatch": [
            {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": [" one", "-two", "+TWO", " three"]}
        ],
        "userModified": False,
        "replaceAll": False,
    }
    assert told["p", "Edit"]["originalFile"] == "one\nTWO\nthree\n"
    assert told["p", "Write"] == {
        "type": "create",
        "filePath": made,
        "content": "hi\n",
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    assert (told["w", "Write"]["type"], told["w", "Write"]["originalFile"]) == ("update", "one\n2\nthree\n")


async def test_a_hook_ends_with_its_turn(stage: HookStage) -> None:
    stage.install("PreToolUse", stage.program("import time; time.sleep(120)"), "Bash")
    async with stage.serve([call("shell", command=["touch", "made"])]) as (_, client):
        made = client.codex("go")
        await until(stage.log.exists, WAIT_SECONDS)
        await client.cancel(made)
        await client.event("task_complete", made)
    assert not (stage.work / "made").exists()


async def test_hooks_of_a_folder_run_contained_once_trusted_and_are_named_before(stage: HookStage) -> None:
    outside = stage.folder / "outside"
    command = f"touch inside; touch {outside} 2>/dev/null; exit 2"
    stage.install("PreToolUse", command, "Bash", file="work/.claude/settings.json")
    script = [call("shell", command=["touch", "made"]), say("x"), call("shell", command=["touch", "more"]), say("y")]
    config = {"sandbox_mode": "workspace-write"}
    async with stage.serve(script, config=config) as (model, client):
        first = client.codex("go")
        await first
        notices = [event["message"] for event in client.events(first) if event["type"] == "background_event"]
        assert any("nobody has trusted it" in notice for notice in notices)
        assert (stage.work / "made").exists()
        key = f"{stage.work}/.claude/settings.json:pre_tool_use:0:0"
        trust(stage, key)
        assert text_of(await client.codex("again")) == "y"
        assert "blocked" in told_to_model(model.requests[3])
    assert sorted(path.name for path in stage.work.iterdir()) == [".claude", "inside", "made"]
    assert not outside.exists()


def trust(stage: HookStage, key: str) -> None:
    from tests.cli.program import Program

    assert Program(stage.home, stage.work).run("hooks", "trust", key).code == 0


@pytest.mark.slow
async def test_a_guard_whose_script_the_model_has_changed_keeps_everything_back(stage: HookStage) -> None:
    script = stage.work / "scripts" / "guard.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\nexit 0\n")
    stage.install("PreToolUse", "sh scripts/guard.sh", "Bash", file="work/.claude/settings.json")
    trust(stage, f"{stage.work}/.claude/settings.json:pre_tool_use:0:0")
    calls = [
        call("shell", command=["bash", "-c", "echo exit 0 >> scripts/guard.sh"]),
        call("shell", call_id="c2", command=["touch", "made"]),
    ]
    async with stage.serve([*calls, say("x")], config={"sandbox_mode": "workspace-write"}) as (model, client):
        await client.codex("go")
        assert "its script has changed since you trusted it" in told_to_model(model.requests[-1], "c2")
    assert not (stage.work / "made").exists()


@pytest.mark.slow
async def test_a_script_of_the_user_s_that_the_model_may_write_runs_contained(stage: HookStage) -> None:
    outside = stage.folder / "outside"
    script = stage.work / "mine.sh"
    script.write_text(f"touch inside; touch {outside}\n")
    stage.install("PostToolUse", f"sh {script}; exit 0", "Bash")
    async with stage.serve([call("shell", command=["true"]), say("x")], config={"sandbox_mode": "workspace-write"}) as (_, client):
        await client.codex("go")
    assert (stage.work / "inside").exists()
    assert not outside.exists()


@pytest.mark.slow
async def test_a_line_that_is_typed_in_pieces_is_shown_as_a_whole(stage: HookStage) -> None:
    stage.install("PreToolUse", stage.program("if 'touch made' in said['tool_input']['command']: sys.exit(2)"), "Bash")
    calls = [
        call("exec_command", cmd="sh", tty=True, yield_time_ms=250),
        call("write_stdin", call_id="c2", session_id=1001, chars="touch ", yield_time_ms=250),
        call("write_stdin", call_id="c3", session_id="1001", chars="made\n", yield_time_ms=250),
    ]
    async with stage.serve([*calls, say("x")], config={"sandbox_mode": "workspace-write"}) as (model, client):
        await client.codex("go")
        number = told_to_model(model.requests[1]).partition("session ID ")[2].split()[0]
        assert number == "1001"
        assert "blocked by PreToolUse hook" in told_to_model(model.requests[-1], "c3")
    assert not (stage.work / "made").exists()
