"""Tools of other MCP servers: offered, called, and told as they are; one that fails hides no other."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import KINDS, names_offered, program, server
from tests.e2e.scenes import scene, text_of, thread_of, told_to_model
from understudy.testing import call, say


def told(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


async def test_a_tool_is_offered_called_and_told_on_both_sides(tmp_path: Path) -> None:
    script = [call("mcp__srv__ok", s="x"), say("Done.")]
    async with scene(script, tmp_path, config=server("srv")) as (model, client):
        call_ = client.call_tool("codex", prompt="go", report="full")
        result = await call_
        assert text_of(result) == "Done."
        assert "mcp__srv__ok" in names_offered(model.requests[0])
        assert told_to_model(model.requests[1]) == 'got {"s": "x"}'
        invocation = {"server": "srv", "tool": "ok", "arguments": {"s": "x"}}
        [began] = told(client.events(call_), "mcp_tool_call_begin")
        [ended] = told(client.events(call_), "mcp_tool_call_end")
        assert began == {
            "type": "mcp_tool_call_begin",
            "call_id": "call1",
            "invocation": invocation,
            "read_only_hint": True,
        }
        assert (ended["invocation"], ended["result"]) == (
            invocation,
            {"Ok": {"content": [{"type": "text", "text": 'got {"s": "x"}'}]}},
        )
        [used] = result["structuredContent"]["report"]["tools"]
        assert (used["server"], used["tool"]) == ("srv", "ok")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mcp__srv__ok", "srv__ok", "ok", "mcp_srv_ok", "srv.ok", "srv/ok", "mcp__srv.ok", "MCP__SRV__OK"])
async def test_every_spelling_of_a_tool_s_name_is_understood(tmp_path: Path, name: str) -> None:
    async with scene([call(name, s="x"), say("Done.")], tmp_path, config=server("srv")) as (model, client):
        await client.codex("go")
        assert told_to_model(model.requests[1]) == 'got {"s": "x"}'


@pytest.mark.slow
async def test_a_name_that_could_mean_two_tools_means_none(tmp_path: Path) -> None:
    config = server("one") | server("two")
    async with scene([call("ok", s="x"), say("Hm.")], tmp_path, config=config) as (model, client):
        await client.codex("go")
        assert told_to_model(model.requests[1]) == "unsupported call: ok"


@pytest.mark.slow
async def test_no_server_takes_the_place_of_a_tool_of_ours(tmp_path: Path) -> None:
    script = [call("shell", command=["echo", "ours"]), say("Done.")]
    async with scene(script, tmp_path, config=server("srv", "odd")) as (model, client):
        await client.codex("go")
        assert json.loads(told_to_model(model.requests[1]))["output"] == "ours\n"
        assert "mcp__srv__shell" in names_offered(model.requests[0])


@pytest.mark.slow
async def test_only_a_server_whose_entry_says_so_is_told_where_the_conversation_works(tmp_path: Path) -> None:
    """Some take the roots that they are told instead of the folders that they were started with."""
    script = [call("mcp__told__roots", call_id="told"), call("mcp__srv__roots", call_id="srv"), say("Done.")]
    settings = {**server("srv"), **server("told"), "mcp_servers.told.roots": True}
    async with scene(script, tmp_path, config=settings) as (model, client):
        await client.codex("go")
        assert told_to_model(model.requests[-1], "told") == json.dumps({"result": {"roots": [{"uri": f"file://{tmp_path}"}]}})
        assert "-32601" in told_to_model(model.requests[-1], "srv")


@pytest.mark.slow
async def test_what_a_tool_gives_reaches_the_model_in_every_kind(tmp_path: Path) -> None:
    wanted = {
        "fails": "The tool says that it failed:\nit failed",
        "refuses": "tool call error: tool call failed for `srv/refuses`\n\nCaused by:\n    Mcp error: -32602: no such thing",
        "structured": '{"n": 1}',
        "empty": "(the tool gave nothing)",
        "resource": '{"type":"resource","resource":{"uri":"file:///a.txt","text":"inside"}}\n'
        '{"type":"resource_link","uri":"file:///b","name":"b"}',
        "image": "a dot",
        "samples": '{"error": {"code": -32601, "message": "understudy does not do this for servers"}}',
        "elicits": '{"result": {"action": "decline"}}',
        "roots": '{"error": {"code": -32601, "message": "understudy does not do this for servers"}}',
        "progress": "token True",
    }
    script = [*(call(f"mcp__srv__{name}", call_id=name) for name in wanted), say("Done.")]
    async with scene(script, tmp_path, config=server("srv")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        assert {name: told_to_model(model.requests[-1], name) for name in wanted} == wanted
        assert "data:image/png;base64," in json.dumps(model.requests[-1]["messages"])
        notices = [event["message"] for event in told(client.events(call_), "background_event")]
        assert "srv: progress: 0 of 3: step 0" in notices
        assert any("srv: elicits: asks something that was declined" in notice for notice in notices)


@pytest.mark.slow
async def test_a_flood_is_cut_for_the_model_the_log_and_those_who_watch(tmp_path: Path) -> None:
    async with scene([call("mcp__srv__floods"), say("Done.")], tmp_path, config=server("srv")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await call_
        given = told_to_model(model.requests[1])
        assert 11_000 < len(given) < 13_000
        assert "omitted" in given
        [ended] = told(client.events(call_), "mcp_tool_call_end")
        assert len(json.dumps(ended)) < 64 * 1024


@pytest.mark.slow
async def test_a_server_that_crashed_is_started_again_for_the_next_call(tmp_path: Path) -> None:
    script = [call("mcp__srv__crashes"), call("mcp__srv__ok", call_id="call2", s="after"), say("Done.")]
    async with scene(script, tmp_path, config=server("srv")) as (model, client):
        await client.codex("go")
        assert "the program ended with exit code 9" in told_to_model(model.requests[1])
        assert told_to_model(model.requests[2], "call2") == 'got {"s": "after"}'


@pytest.mark.slow
async def test_a_tool_that_takes_too_long_is_given_up_and_the_next_call_works(tmp_path: Path) -> None:
    script = [call("mcp__srv__hangs"), call("mcp__srv__ok", call_id="call2", s="after"), say("Done.")]
    async with scene(script, tmp_path, config=server("srv", tool_timeout_sec=0.5)) as (model, client):
        await client.codex("go")
        assert "timed out awaiting tools/call after 500ms" in told_to_model(model.requests[1])
        assert told_to_model(model.requests[2], "call2") == 'got {"s": "after"}'


@pytest.mark.slow
async def test_a_cancelled_call_ends_the_turn_while_a_tool_hangs(tmp_path: Path) -> None:
    async with scene([call("mcp__srv__hangs")], tmp_path, config=server("srv")) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        await client.event("mcp_tool_call_begin", call_)
        await client.cancel(call_)
        result = await call_
        assert result["error"] == "Turn interrupted"
        [ended] = told(client.events(call_), "mcp_tool_call_end")
        assert "not known" in ended["result"]["Err"]
        assert len(model.requests) == 1


@pytest.mark.slow
async def test_missing_servers_are_named_and_the_others_work(tmp_path: Path) -> None:
    config = (
        server("good", "good")
        | server("dies", "dies")
        | program("gone", "no-such-program-here")
        | server("off", "good", enabled=False)
        | server("pages", "pages")
        | server('"bad name"', "good")
        | server("flooding", "floodstart")
        | server("many", "many")
        | server("odd", "odd")
    )
    async with scene([call("mcp__good__ok", s="x"), say("Done.")], tmp_path, config=config) as (model, client):
        call_ = client.call_tool("codex", prompt="go")
        result = await call_
        assert told_to_model(model.requests[1]) == 'got {"s": "x"}'
        missing = {each["server"]: each["error"] for each in result["structuredContent"]["report"]["missing_servers"]}
        assert set(missing) == {"dies", "gone", "bad name"}
        assert missing["gone"] == "No such file or directory (os error 2)"
        assert missing["dies"].endswith("with exit code 3: cannot start: no licence")
        assert "must match pattern" in missing["bad name"]
        [notice] = [event["message"] for event in told(client.events(call_), "background_event")]
        assert all(name in notice for name in missing)
        names = names_offered(model.requests[0])
        assert {f"mcp__pages__p{page}" for page in range(4)} <= set(names)
        assert sum(name.startswith("mcp__many__") for name in names) == 200
        assert "mcp__flooding__ok" in names
        assert not any("off" in name for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["hangstart", "hanglist"])
async def test_a_server_that_hangs_is_not_waited_for(tmp_path: Path, mode: str) -> None:
    config = server("good", "good") | server("slow", mode) | {"understudy.mcp.wait_seconds": 3}
    async with scene([say("Done.")], tmp_path, config=config) as (model, client):
        result = await client.codex("go")
        assert "mcp__good__ok" in names_offered(model.requests[0])
        [missing] = result["structuredContent"]["report"]["missing_servers"]
        assert (missing["server"], "still starting" in missing["error"]) == ("slow", True)


@pytest.mark.slow
async def test_a_server_that_has_to_be_there_fails_the_call_with_its_reason(tmp_path: Path) -> None:
    config = server("dies", "dies", required=True)
    async with scene([], tmp_path, config=config) as (model, client):
        result = await client.codex("go")
        assert result["isError"]
        assert "required MCP servers failed to start: dies: " in text_of(result)
        assert "no licence" in text_of(result)
        assert model.requests == []


@pytest.mark.slow
async def test_tools_that_are_switched_off_are_not_there(tmp_path: Path) -> None:
    config = server("srv", enabled_tools=["ok", "fails", "nosuch"], disabled_tools=["fails"])
    async with scene([call("mcp__srv__fails"), say("Hm.")], tmp_path, config=config) as (model, client):
        await client.codex("go")
        assert [name for name in names_offered(model.requests[0]) if name.startswith("mcp__")] == ["mcp__srv__ok"]
        assert told_to_model(model.requests[1]) == "unsupported call: mcp__srv__fails"


@pytest.mark.slow
async def test_servers_are_kept_between_turns_and_end_with_the_program(tmp_path: Path) -> None:
    script = [call("mcp__srv__ok", s="1"), say("One."), call("mcp__srv__ok", call_id="call2", s="2"), say("Two.")]
    async with scene(script, tmp_path, config=server("srv")) as (model, client):
        first = await client.codex("go")
        [before] = servers_running(tmp_path)
        await client.reply(thread_of(first), "again")
        assert servers_running(tmp_path) == [before]
        assert told_to_model(model.requests[-1], "call2") == 'got {"s": "2"}'
    assert await gone(before)


@pytest.mark.slow
async def test_no_server_outlives_a_program_that_was_killed(tmp_path: Path) -> None:
    async with scene([say("Hello.")], tmp_path, config=server("srv")) as (_, client):
        await client.codex("go")
        [running] = servers_running(tmp_path)
        client.kill_now()
        assert await gone(running)


def servers_running(cwd: Path) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if KINDS.encode() in words and os.readlink(entry / "cwd") == str(cwd):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def gone(pid: int) -> bool:
    for _ in range(600):
        if not Path(f"/proc/{pid}").exists():
            return True
        await asyncio.sleep(0.1)
    return False
