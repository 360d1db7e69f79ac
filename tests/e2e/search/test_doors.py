"""Search by every door: the tool, REST and the command find the same, and nobody finds what they may not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program
from tests.e2e.talking import create, structured
from tests.support.rest_client import RestClient, serving_rest
from understudy.testing import McpProcess, ScriptedModel, call, say

KEY = "sk-" + "a1B2" * 8


@pytest.fixture
def program(tmp_path: Path) -> Program:
    home, cwd = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    cwd.mkdir()
    return Program(home, cwd)


async def ask(client: McpProcess, **arguments: Any) -> dict[str, Any]:
    return structured(await client.call_tool("conversationsSearch", arguments))


async def test_the_tool_and_the_command_find_the_same(program: Program) -> None:
    script = [call("shell", command=["echo", "marmalade"]), say(f"The key is {KEY}, and marmalade.")]
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=program.cwd, home=program.home) as client:
        await client.codex("Where is the marmalade?")
        told = await ask(client, query="marmalade")
        assert [hit["role"] for hit in told["hits"]] == ["assistant", "command", "command", "user"]
        assert told["hits"][0]["snippet"] == "The key is [redacted], and marmalade."
        assert set(told["hits"][0]) == {"conversation_id", "seq", "time", "role", "snippet"}
        assert "next" not in told
        first = await ask(client, query="marmalade", limit=1)
        assert (await ask(client, query="marmalade", limit=3, cursor=first["next"]))["hits"] == told["hits"][1:]
        assert len((await ask(client, query="marmalade", role="command", folder=str(program.cwd), since="1d"))["hits"]) == 2
        wrong: list[dict[str, Any]] = [
            {"query": "!"},
            {"query": "x", "role": "me"},
            {"query": "x", "since": "soon"},
            {},
            {"query": "x", "limit": 0},
        ]
        for arguments in wrong:
            assert (await client.call_tool("conversationsSearch", arguments))["isError"] is True, arguments
    ended = program.call("search", "Marmalade", "--json")
    assert (ended.code, json.loads(ended.out)) == (0, {"hits": told["hits"], "next": None})
    shown = program.call("search", "the", "key", "--folder", str(program.cwd), "--since", "2020-01-01", "--role", "assistant")
    assert shown.code == 0
    assert shown.out.splitlines()[1] == "    The key is [redacted], and marmalade."
    assert program.call("search", "nothing-of-it").err == "Nothing found.\n"
    assert program.call("search", "x", "--since", "yesterday").code == 2
    assert "no word" in program.call("search", "!").err


def test_where_nothing_was_ever_said_nothing_is_found_or_made(program: Program) -> None:
    ended = program.call("search", "x", "--json")
    assert (ended.code, json.loads(ended.out)) == (0, {"hits": [], "next": None})
    assert not (program.home / "understudy" / "conversations.db").exists()


async def test_by_rest_everybody_finds_what_they_may_read(tmp_path: Path) -> None:
    async with (
        ScriptedModel([say("Marmalade."), say("Marmalade, too.")]) as model,
        serving_rest(tmp_path, model) as (server, client),
    ):
        row = await client.create(server.cwd, "Begin")
        await (await client.stream(row["id"])).until("task_complete")
        ann = RestClient(server.port, await server.add_token("ann"))
        assert await ann.get("/v1/search?q=marmalade") == {"hits": [], "next": None}
        own = await ann.create(server.cwd, "Begin", sandbox="workspace-write")
        await (await ann.stream(own["id"])).until("task_complete")
        assert [hit["conversation_id"] for hit in (await ann.get("/v1/search?q=marmalade"))["hits"]] == [own["id"]]
        everybody = await client.get("/v1/search?q=marmalade&role=assistant&limit=1")
        assert [hit["conversation_id"] for hit in everybody["hits"]] == [own["id"]]
        assert set(everybody["hits"][0]) == {"conversation_id", "seq", "time", "role", "snippet"}
        older = await client.get(f"/v1/search?q=marmalade&cursor={everybody['next']}")
        assert [(hit["conversation_id"], hit["role"]) for hit in older["hits"]] == [(row["id"], "assistant")]
        for query in (
            "",
            "?q=",
            "?q=x&role=me",
            "?q=x&limit=0",
            "?q=x&limit=101",
            "?q=x&cursor=!",
            "?q=x&since=soon",
            "?q=x&nonsense=1",
        ):
            assert await client.status("GET", f"/v1/search{query}") == (400, "bad_request"), query
        await client.delete(f"/v1/conversations/{row['id']}")
        assert len((await client.get("/v1/search?q=marmalade"))["hits"]) == 1


async def test_what_is_kept_only_in_memory_is_not_searched(program: Program) -> None:
    async with (
        ScriptedModel([say("Marmalade."), say("Yes.")]) as model,
        McpProcess(model.url, cwd=program.cwd, home=program.home) as client,
    ):
        await client.call_tool("codex", {"prompt": "Begin", "config": {"history.persistence": "none"}})
        assert await ask(client, query="marmalade") == {"hits": []}
        kept = await create(client, prompt="marmalade")
        assert [hit["conversation_id"] for hit in (await ask(client, query="marmalade"))["hits"]] == [kept]
