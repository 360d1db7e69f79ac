"""What was judged is what runs: another conversation's command tries to exchange a script, a program or a folder in between."""

import asyncio
from typing import Any

import pytest

from tests.security.house import ENV, NEVER, UNTRUSTED, Attack, attacks, besieged, house, shell, told
from understudy.testing import Call, McpProcess, ScriptedModel

FOR_SESSION: dict[str, Any] = {"action": "accept", "content": {"decision": "approved_for_session"}}
APPROVED: dict[str, Any] = {"action": "accept"}
DECLINED: dict[str, Any] = {"action": "decline"}

# Exchanges the thing as fast as it can for a while, by renaming, and leaves the good one; it also writes to it in place.
SWAPPER = """
import os, sys, time
kind, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds
while time.monotonic() < end:
    if kind == "file":
        for text in ("touch ../outside/evil\\n", "touch good\\n"):
            with open("next", "w") as file:
                file.write(text)
            os.chmod("next", 0o755)
            os.rename("next", "run.sh")
    elif kind == "in place":
        for text in ("touch ../outside/evil\\n", "touch good           \\n"):
            with open("run.sh", "r+") as file:
                file.write(text)
    elif kind == "folder":
        os.rename("sub", "kept")
        os.symlink("../outside", "sub")
        os.unlink("sub")
        os.rename("kept", "sub")
    elif kind == "program":
        with open("bin/tool", "w") as file:
            file.write("#!/bin/sh\\ntouch ../outside/evil\\n")
        os.chmod("bin/tool", 0o755)
        os.unlink("bin/tool")
"""
TRIES = 12
GOOD = "touch good           \n"  # as long as the evil one
KINDS: dict[str, Attack] = {
    "file": shell("bash", "run.sh"),
    "in place": shell("bash", "-c", "./run.sh"),
    "folder": shell("touch", "evil", workdir="sub"),
    "program": shell("tool"),
}


async def answered(client: McpProcess, turn: Call) -> None:
    """The first question for the session, and each of the others once, until the turn is over."""
    answer = FOR_SESSION
    while not turn.done:
        asking = asyncio.create_task(client.next_request("elicitation/create"))
        ending = asyncio.ensure_future(turn)
        await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            question = asking.result()
            at_home = not question["params"]["codex_cwd"].endswith("/outside")  # else it is judged while the folder leads there
            await client.respond(question, answer if at_home else DECLINED)
            answer = APPROVED
        else:
            asking.cancel()
        ending.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_x15_nothing_that_was_exchanged_runs_outside_the_sandbox(kind: str) -> None:
    swap = attacks({f"swap {count}": shell("python3", "swap.py", kind, "0.15") for count in range(TRIES)})
    runs = [*attacks({f"run {count}": KINDS[kind] for count in range(TRIES)}), *attacks({"undisturbed": KINDS[kind]})]
    with house() as place:
        project = place.project
        (project / "run.sh").write_text(GOOD)
        (project / "run.sh").chmod(0o755)
        (project / "swap.py").write_text(SWAPPER)
        (project / "sub").mkdir()
        (project / "bin").mkdir()
        path = "/usr/local/bin:/usr/bin:/bin"
        env = {**ENV, "PATH": f"{project}/bin:{path}" if kind == "program" else path}
        async with ScriptedModel(swap) as swapper, besieged(runs, place, UNTRUSTED, env=env) as (model, client):
            elsewhere = {"model_providers.mock.base_url": swapper.url, **NEVER}
            swapping = client.call_tool("codex", prompt="swap", config=elsewhere)
            turn = client.call_tool("codex", prompt="run")
            await answered(client, turn)
            thread = (await turn)["structuredContent"]["threadId"]
            await swapping
            outcomes, swaps = told(model.requests[-1]), told(swapper.requests[-1])
            turn = client.call_tool("codex-reply", threadId=thread, prompt="run it now that nobody exchanges anything")
            await answered(client, turn)
            await turn
        assert len(outcomes) == TRIES
        assert [outcome for outcome in swaps.values() if '"exit_code":0' not in outcome] == []
        assert not (place.outside / "evil").exists()
        if kind in ("file", "in place"):
            assert (project / "good").exists()
