"""`deny` and `ask` of the user's settings for Claude Code, through the real program."""

from pathlib import Path

from tests.e2e.hooks.stage import HookStage
from tests.e2e.scenes import told_to_model
from understudy.testing import call, say

PATCH = "*** Begin Patch\n*** Add File: gen/x.py\n+1\n*** End Patch\n"


async def test_those_of_a_folder_are_named_and_not_obeyed(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    (stage.work / ".claude").mkdir()
    (stage.work / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["Bash(echo:*)"], "allow": ["Bash"]}}')
    async with stage.serve([call("shell", call_id="e", command=["echo", "free"]), say("x")]) as (model, client):
        await client.codex("go")
        assert "free" in told_to_model(model.requests[-1], "e")
        assert any("a folder brings no rules" in str(frame) for frame in client.frames)


async def test_they_are_obeyed_for_commands_and_changes_in_every_mode(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    path = tmp_path / "user" / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"permissions": {"deny": ["Bash(touch:*)", "Edit(gen/**)"], "ask": ["Bash(mkdir *)"], "allow": ["Bash"]}}')
    script = [
        call("shell", call_id="c", command=["sh", "-c", "true && touch made"]),
        call("apply_patch", call_id="p", input=PATCH),
        call("shell", call_id="a", command=["mkdir", "made"]),
        call("shell", call_id="e", command=["echo", "free"]),
        say("x"),
    ]
    config = {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
    async with stage.serve(script, config=config) as (model, client):
        await client.codex("go")
        told = {each: told_to_model(model.requests[-1], each) for each in "cpae"}
    assert f"denied by the rule Bash(touch:*) in {path}" in told["c"]
    assert "Edit(gen/**)" in told["p"]
    assert "Bash(mkdir *)" in told["a"]
    assert "free" in told["e"]
    assert list(stage.work.iterdir()) == []
