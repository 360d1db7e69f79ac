"""A command with much to look at before it may leave the sandbox: the steps of the server stay short, and others are served."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import FORBIDDING
from tests.support.counted_steps import Steps
from understudy.testing import McpProcess, ScriptedModel, call, say
from understudy.testing.home import SERVER_COMMAND

CALLS_IN_A_STEP = 40_000
SCRIPTS = 400
FOR_SESSION: dict[str, Any] = {"action": "accept", "content": {"decision": "approved_for_session"}}


@pytest.mark.slow
async def test_hundreds_of_scripts_are_looked_at_in_short_steps(tmp_path: Path) -> None:
    """When they are asked about, before they run, and when the approval for the session is looked up."""
    steps, work = Steps(tmp_path), tmp_path / "work"
    work.mkdir()
    for number in range(SCRIPTS):
        (work / f"{number}.sh").write_text("true\n")
    command, few = call("shell", command=["bash", "-c", "sh *.sh && echo ran"]), call("shell", command=["bash", "-c", "sh 1?.sh"])
    async with ScriptedModel([few, say("warm"), command, say("one"), command, say("two")]) as model:
        async with McpProcess(model, cwd=work, config=FORBIDDING, command=(*steps.started_by, *SERVER_COMMAND)) as client:
            for prompt in ("load what is loaded once", "run them"):
                steps.reset()
                turn = client.call_tool("codex", prompt=prompt)
                await client.respond(await client.next_request("elicitation/create"), FOR_SESSION)
                thread = (await turn)["structuredContent"]["threadId"]
            assert (await client.call_tool("codex-reply", threadId=thread, prompt="again"))["structuredContent"]["content"] == "two"
            assert steps.calls < CALLS_IN_A_STEP, steps.where
        assert all("ran" in str(request["messages"][-1]) for request in (model.requests[3], model.requests[5]))
