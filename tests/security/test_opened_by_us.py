"""Our own doors and the end of commands that are kept from a name: the question names what a yes ends, and that is ended first."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from tests.e2e.scenes import text_of, thread_of, told_to_model
from tests.e2e.talking import listed
from tests.e2e.test_long_commands import FIRST, start, write
from tests.sandbox.stage import until
from tests.security.house import ON_REQUEST, House, attacks, besieged, house, patch
from understudy.testing import Answer, McpProcess, say
from understudy.testing.waiting import WAIT_SECONDS

PROTECT = "understudy.sandbox.protect"
# Says that it is there, and then tries without end to write the names, without a word.
HOSTILE = "echo here; while :; do for it in .envrc .mcp.json; do echo HOSTILE > $it; done; done 2>/dev/null"


@pytest.fixture
def place() -> Generator[House]:
    with house() as found:
        (found.project / ".envrc").write_text("before\n")
        yield found


def patched(name: str) -> Answer:
    lines = ("*** Update File: .envrc", "-before", "+after") if name == ".envrc" else (f"*** Add File: {name}", "+after")
    return attacks({"patch": patch(*lines)})[0]


async def approve(client: McpProcess, call: Any) -> str:
    """Why the patch is asked about, after a yes to it."""
    question = await client.next_request("elicitation/create")
    await client.respond(question, {"decision": "approved"})
    await call
    return str(question["params"]["codex_reason"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [".envrc", ".mcp.json"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["the same conversation", "another conversation"])
async def test_a_yes_ends_the_command_that_the_question_names_before_the_patch(place: House, name: str, elsewhere: bool) -> None:
    script = [start(HOSTILE, yield_time_ms=1000), say("one"), patched(name), say("two"), write(yield_time_ms=250), say("three")]
    async with besieged(script, place, ON_REQUEST) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="1"))
        call = client.call_tool("codex" if elsewhere else "codex-reply", {} if elsewhere else {"threadId": thread}, prompt="2")
        reason = await approve(client, call)
        assert f"a yes ends a command that runs and is kept from this: `{HOSTILE[:20]}" in reason
        assert (place.project / name).read_text() == "after\n"
        assert text_of(await client.call_tool("codex-reply", threadId=thread, prompt="3")) == "three"
        news = str(model.requests[-2]["messages"])
        assert f"Session {FIRST} (`" in news
        assert "does not run any more: the user approved a change of a file that it was kept from." in news
        assert (place.project / name).read_text() == "after\n"  # nothing was left that could have written it


@pytest.mark.slow
async def test_a_no_ends_nothing(place: House) -> None:
    script = [start(HOSTILE, yield_time_ms=1000), patched(".envrc"), write(yield_time_ms=250), say("done")]
    async with besieged(script, place, ON_REQUEST) as (model, client):
        call = client.call_tool("codex", prompt="go")
        question = await client.next_request("elicitation/create")
        await client.respond(question, {"decision": "denied"})
        await call
        assert f"Process running with session ID {FIRST}" in told_to_model(model.requests[-1], "call2")
    assert (place.project / ".envrc").read_text() == "before\n"


@pytest.mark.slow
async def test_a_name_that_the_user_has_opened_ends_nothing(place: House) -> None:
    script = [start("echo here; sleep 600", yield_time_ms=1000), patched(".envrc"), write(yield_time_ms=250), say("done")]
    async with besieged(script, place, {**ON_REQUEST, PROTECT: ["!.envrc"]}) as (model, client):
        await client.call_tool("codex", prompt="go")
        assert f"Process running with session ID {FIRST}" in told_to_model(model.requests[-1], "call2")
    assert (place.project / ".envrc").read_text() == "after\n"


@pytest.mark.slow
async def test_a_patch_beside_it_ends_nothing(place: House) -> None:
    beside = attacks({"patch": patch("*** Add File: src/new.py", "+after")})[0]
    script = [start("echo here; sleep 600", yield_time_ms=1000), beside, write(yield_time_ms=250), say("done")]
    async with besieged(script, place, ON_REQUEST) as (model, client):
        await client.call_tool("codex", prompt="go")
        assert f"Process running with session ID {FIRST}" in told_to_model(model.requests[-1], "call2")


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", [".envrc", ".mcp.json", ".git"])
async def test_a_silent_session_ends_when_an_editor_saves_and_the_model_is_told_why(place: House, name: str) -> None:
    quiet = f"touch begun; {HOSTILE.removeprefix('echo here; ')}"
    script = [start(quiet, yield_time_ms=250), say("one"), say("two")]
    async with besieged(script, place, ON_REQUEST) as (model, client):
        call = client.call_tool("codex", prompt="1")
        thread = thread_of(await call)
        path = place.project / name
        await until((place.project / "begun").exists)
        if name == ".git":
            path.rename(place.home / "git")
        else:
            (place.home / "saved").write_text("saved\n")
            if path.is_dir():  # what stands there for the command
                path.rmdir()
            (place.home / "saved").replace(path)
        async with asyncio.timeout(WAIT_SECONDS):
            while "running" in (await listed(client))[0]:
                pass
        await client.call_tool("codex-reply", threadId=thread, prompt="2")
        news = str(model.requests[-1]["messages"])
        assert f"Session {FIRST} (`" in news
        assert f"another program replaced, moved or removed {path}" in news
