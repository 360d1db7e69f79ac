"""`conversationRename` and `understudy rename`: the title is in every list, whichever process has the conversation."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.e2e.talking import Stream, create, listed, send, structured
from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas, say


@pytest.fixture
def program(tmp_path: Path) -> Program:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return Program(home, cwd)


@asynccontextmanager
async def server(program: Program, script: Any, **options: Any) -> AsyncGenerator[tuple[ScriptedModel, McpProcess]]:
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=program.cwd, home=program.home, **options) as client:
        yield model, client


async def rename(client: McpProcess, conversation: str, title: str) -> dict[str, Any]:
    return structured(await client.call_tool("conversationRename", conversation_id=conversation, title=title))


async def title_of(client: McpProcess) -> str:
    [entry] = await listed(client)
    return str(entry["title"])


async def test_a_title_is_listed_streamed_and_outlives_the_process(program: Program) -> None:
    async with server(program, [say("one"), say("two")]) as (_, client):
        conversation = await create(client, prompt="the first words")
        stream = Stream(client, conversation, after=0)
        await stream.until("task_complete")
        assert await title_of(client) == "the first words"
        assert await rename(client, conversation, "  My\n title\t") == {"status": "ok", "title": "My title"}
        assert await title_of(client) == "My title"
        assert (await stream.until("background_event"))["message"] == "the conversation is now called My title"
        assert await rename(client, conversation, "My title") == {"status": "ok", "title": "My title"}
        await send(client, conversation, "more")
        await stream.until("task_complete", 2)
        assert await title_of(client) == "My title"
        assert stream.kinds().count("background_event") == 1
    assert program.json("conversations", "--json")[0]["title"] == "My title"
    ended = program.run("rename", conversation[:8], "Another one")
    assert (ended.code, ended.out) == (0, f"{conversation} is now called Another one\n")
    assert "Another one" in program.run("show", conversation).out


@pytest.mark.slow
async def test_while_a_turn_runs_here_or_elsewhere_it_is_renamed_at_once(program: Program) -> None:
    async with server(program, [deltas(["speaks", HOLD])]) as (model, client):
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation, after=0)
        await stream.until("agent_message_delta")
        assert (await rename(client, conversation, "here"))["title"] == "here"
        ended = await program.run_aside("rename", conversation, "there")
        assert ended.code == 0, ended
        assert await title_of(client) == "there"
        ended = await program.run_aside("rename", conversation, "there")
        assert ended.code == 0, "the server writes nothing, because that is the title already"
        model.release()
        await stream.until("task_complete")
        assert await title_of(client) == "there"


@pytest.mark.slow
async def test_who_gives_the_title_that_it_has_already_is_answered_when_the_turn_elsewhere_ends(program: Program) -> None:
    elsewhere = McpProcess(cwd=program.cwd, home=program.home)
    async with server(program, [deltas(["speaks", HOLD])]) as (model, client), elsewhere as other:
        conversation = await create(client, prompt="go")
        stream = Stream(client, conversation, after=0)
        await stream.until("agent_message_delta")
        await rename(client, conversation, "same")
        renaming = asyncio.ensure_future(rename(other, conversation, "same"))
        await title_of(other)  # the other process has left its wish to the first one by now
        model.release()
        await stream.until("task_complete")
        assert await renaming == {"status": "ok", "title": "same"}


@pytest.mark.slow
async def test_a_fork_within_the_conversation_keeps_the_title(program: Program) -> None:
    async with server(program, [say("one"), say("two")]) as (_, client):
        conversation = await create(client, prompt="1")
        stream = Stream(client, conversation, after=0)
        await stream.until("task_complete")
        first = (await stream.until("user_message"))["message_id"]
        await rename(client, conversation, "kept")
        await send(client, conversation, "2", parent_message_id=first)
        await stream.until("task_complete", 2)
        assert await title_of(client) == "kept"


@pytest.mark.slow
async def test_the_modern_wire_tells_it_as_upstream_did(program: Program) -> None:
    async with server(program, [], config={"understudy.wire": "modern"}) as (_, client):
        conversation = await create(client)
        await rename(client, conversation, "new")
        told = [event["msg"] for event in await Stream(client, conversation, after=0).snapshot()]
        assert told[-1] == {"type": "thread_name_updated", "thread_id": conversation, "thread_name": "new"}


@pytest.mark.quick(1)
@pytest.mark.parametrize(("title", "reason"), [("", "empty"), (" \n\x00 ", "empty"), ("x" * 201, "201 characters")])
async def test_what_is_no_title_is_refused_with_the_reason(program: Program, title: str, reason: str) -> None:
    async with server(program, []) as (_, client):
        conversation = await create(client)
        result = await client.call_tool("conversationRename", conversation_id=conversation, title=title)
        assert result["isError"]
        assert reason in result["content"][0]["text"]
        assert await title_of(client) == "New conversation"
