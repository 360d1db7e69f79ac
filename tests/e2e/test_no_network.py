"""A command that needs the network where there is none: the model and the person are told what to set, and early."""

from pathlib import Path
from typing import Any

from tests.e2e.scenes import scene, told_to_model
from understudy.testing import call, say

SETTINGS = {"sandbox_mode": "workspace-write"}
HINT = 'has no network: the sandbox gives it none. The user can allow it: `network = "on"` under `[understudy.sandbox]`'


async def run(folder: Path, name: str, **arguments: Any) -> tuple[str, list[str], list[str]]:
    """What the model was told, the kinds of events, and what the person was told beside the output."""
    async with scene([call(name, **arguments), say("ok")], folder, config=SETTINGS) as (model, client):
        going = client.call_tool("codex", prompt="go")
        await going
        events = client.events(going)
        notices = [event["message"] for event in events if event["type"] == "background_event"]
        return told_to_model(model.requests[1]), [event["type"] for event in events], notices


def stub(folder: Path, text: str) -> None:
    (folder / "npm").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "npm").chmod(0o755)


async def test_a_known_command_is_told_of_before_it_begins_and_to_the_model_when_its_time_is_over(tmp_path: Path) -> None:
    stub(tmp_path, "exec sleep 60")
    told, kinds, [notice] = await run(tmp_path, "shell", command=["./npm", "install"], timeout_ms=700)
    assert notice.startswith(f"`npm install` {HINT}")
    assert kinds.index("background_event") < kinds.index("exec_command_begin")
    assert HINT.replace('"', '\\"') in told
    assert told.count("has no network") == 1


async def test_a_failure_that_speaks_of_it_is_told_of_at_its_end(tmp_path: Path) -> None:
    script = "import socket; socket.getaddrinfo('example.invalid', 443)"
    told, kinds, [notice] = await run(tmp_path, "shell", command=["python3", "-c", script])
    assert notice.startswith(f"This command {HINT}")
    assert kinds.index("background_event") > kinds.index("exec_command_begin")
    assert "[[policy.rules]]" in told


async def test_a_command_that_goes_on_is_told_of_with_the_first_answer(tmp_path: Path) -> None:
    stub(tmp_path, "exec sleep 60")
    told, _, [notice] = await run(tmp_path, "exec_command", cmd="./npm install", yield_time_ms=250)
    assert "Process running with session ID" in told
    assert HINT in told
    assert notice.startswith("`npm install`")


async def test_a_command_that_does_well_is_not_told_of(tmp_path: Path) -> None:
    told, _, notices = await run(tmp_path, "shell", command=["echo", "getaddrinfo EAI_AGAIN"])
    assert notices == []
    assert "no network" not in told
