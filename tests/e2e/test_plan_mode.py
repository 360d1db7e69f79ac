"""Plan mode: nothing is written whatever is tried, and the user's word on the plan decides how the turn goes on."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import told_to_model, users_in
from tests.e2e.test_app_server import scene as app_scene
from tests.support.rest_client import serving_rest
from understudy.testing import ScriptedModel, call, say

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch"
PLAN = "I looked.\n<proposed_plan>\n# Plan\n- make it\n</proposed_plan>\nThat is all."
WRITE = f"import pathlib; pathlib.Path({'made.txt'!r}).write_text('x')"
FULL: dict[str, Any] = {"approval_policy": "never", "sandbox": "danger-full-access"}
ATTEMPTS = [
    call("shell", call_id="c1", command=["bash", "-c", "echo x > made.txt"]),
    call("apply_patch", call_id="c2", input=PATCH),
    call("edit_file", call_id="c3", path="kept.txt", old_text="old", new_text="new"),
    call("exec_command", call_id="c4", cmd="rm kept.txt", sandbox_permissions="require_escalated", justification="please"),
    call("shell", call_id="c5", command=[sys.executable, "-c", WRITE]),
    call("shell", call_id="c6", command=["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]),
]


def asks(conversation: dict[str, Any]) -> dict[str, Any]:
    [waiting] = conversation["questions"]
    return waiting


@pytest.mark.parametrize("chosen", [FULL, {"approval_policy": "on-request", "sandbox": "workspace-write"}], ids=["full", "asking"])
@pytest.mark.quick(1)
async def test_nothing_is_written_in_plan_mode_whatever_is_tried(chosen: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("old")
    config = {"policy.rules": [{"name": "rm", "prefix": ["rm"], "decision": "allow"}]}
    async with (
        ScriptedModel([*ATTEMPTS, say("No plan.")]) as model,
        serving_rest(tmp_path, model, config=config) as (server, client),
    ):
        (server.cwd / "kept.txt").write_text("old")
        row = await client.create(server.cwd, "change it", mode="plan", **chosen)
        stream = await client.stream(row["id"])
        await stream.until("task_complete")
        assert (server.cwd / "kept.txt").read_text() == "old"
        assert not (server.cwd / "made.txt").exists()
        for call_id in ("c2", "c3", "c6"):
            assert "plan mode is on" in told_to_model(model.requests[-1], call_id), call_id
        assert "<collaboration_mode>" in str(model.requests[0]["messages"])


async def test_a_plan_is_accepted_with_changes_and_the_turn_goes_on_in_the_default_mode(tmp_path: Path) -> None:
    script = [say(PLAN), say(PLAN), call("apply_patch", input=PATCH), say("Done.")]
    async with ScriptedModel(script) as model, serving_rest(tmp_path, model) as (server, client):
        row = await client.create(server.cwd, "plan it", mode="plan", **FULL)
        stream = await client.stream(row["id"])
        path = f"/v1/conversations/{row['id']}"
        await stream.until("approval_request")
        asked = asks(await client.get(path))
        assert [each["id"] for each in asked["questions"]] == ["plan", "changes"]
        refusal = {"plan": "Keep planning", "changes": "smaller"}
        await client.post(f"{path}/answers", {"call_id": asked["call_id"], "answers": refusal})
        await stream.until("approval_request")
        asked = asks(await client.get(path))
        await client.post(
            f"{path}/answers", {"call_id": asked["call_id"], "answers": {"plan": "Carry it out", "changes": "in green"}}
        )
        await stream.until("task_complete")
        assert (server.cwd / "made.txt").read_text() == "hello\n"
        first, second = users_in(model.requests[2])[-2:]
        assert first.startswith("The plan is refused.")
        assert first.endswith("smaller")
        assert second.startswith("Plan mode is over. The plan is accepted with these changes")
        assert second.endswith("in green")


async def test_a_plan_that_nobody_reviews_ends_the_turn_and_the_mode_stays(tmp_path: Path) -> None:
    """Clients of the app server put the plan to their user themselves, and begin the next turn in the mode chosen."""
    script = [say(PLAN), call("apply_patch", input=PATCH), say("No."), call("apply_patch", call_id="c2", input=PATCH), say("Done.")]
    mode: dict[str, Any] = {"settings": {"model": "mock-model", "reasoning_effort": None, "developer_instructions": None}}
    async with app_scene(script, tmp_path, config={"sandbox_mode": "workspace-write"}) as (model, client, work):
        thread = await client.start_thread(work)
        turn = await client.start_turn(thread, "plan it", collaborationMode={"mode": "plan", **mode})
        plan = await client.until(lambda m: m.get("params", {}).get("item", {}).get("type") == "plan", "the plan")
        assert plan["params"]["item"]["id"] == f"{turn}-plan"
        over = await client.turn_over(thread, turn)
        assert over["items"][-1]["text"] == "I looked.\nThat is all."
        assert (await client.run_turn(thread, "now"))["status"] == "completed"
        assert not (work / "made.txt").exists(), "the mode was kept"
        after = await client.start_turn(thread, "carry it out", collaborationMode={"mode": "default", **mode})
        await client.turn_over(thread, after)
        assert (work / "made.txt").exists()
        assert "Plan mode is over: you may change files again." in str(model.requests[-1]["messages"])
