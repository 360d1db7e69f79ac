"""A folder whose hooks nobody has trusted, and whose author wants the server to be busy with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.hooks.stage import HookStage
from tests.support.counted_steps import Steps
from understudy.testing import McpProcess, ScriptedModel, say
from understudy.testing.home import SERVER_COMMAND, CodexHome

CALLS_IN_A_STEP = 40_000


def fill(folder: Path) -> None:
    (folder / "hooks").mkdir()
    for number in range(300):
        (folder / "hooks" / f"{number}.sh").write_text("true\n")
    (folder / ".claude" / "more").mkdir(parents=True)
    for number in range(3_000):
        (folder / ".claude" / "more" / str(number)).touch()
    entry = {"type": "command", "command": "sh hooks/*.sh"}
    groups: list[dict[str, Any]] = [{"matcher": f"m{number}", "hooks": [entry]} for number in range(2_000)]
    (folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PostToolUse": groups}}))


@pytest.mark.slow
async def test_hooks_that_nobody_trusts_cost_next_to_nothing_and_are_named_in_a_line(tmp_path: Path) -> None:
    stage, steps = HookStage(tmp_path), Steps(tmp_path)
    fill(stage.work)
    async with ScriptedModel([say("one"), say("two")]) as model:
        home = CodexHome(stage.home, model)
        async with McpProcess(cwd=stage.work, home=home.path, command=(*steps.started_by, *SERVER_COMMAND)) as client:
            await client.codex("load what is loaded once")
            steps.reset()
            await client.codex("and again")
            assert steps.calls < CALLS_IN_A_STEP, steps.where
        notices = [frame["params"]["msg"]["message"] for frame in client.frames if "hooks of" in str(frame) and "params" in frame]
    assert any("50 hooks of" in notice and "at most 50 hooks" not in notice for notice in notices), notices


async def test_a_file_of_hooks_that_is_too_large_is_named_and_not_read(tmp_path: Path) -> None:
    stage = HookStage(tmp_path)
    (stage.work / ".codex").mkdir()
    (stage.work / ".codex" / "config.toml").write_text("a = [" + "[],\n" * 100_000 + "]\n")
    async with stage.serve([say("one")]) as (_, client):
        await client.codex("go")
        assert "larger than 262144 bytes, so its hooks do not run" in str(client.frames)
