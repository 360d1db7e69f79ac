"""Instructions, skills and commands on disk, as each door has them: the model, MCP prompts, an editor's and the chat's commands."""

import json
from pathlib import Path

import pytest

from tests.e2e.scenes import scene
from tests.e2e.test_acp import scene as editor_scene
from tests.e2e.test_app_server import scene as app_scene
from tests.support.app_client import RpcFailed
from tests.support.http_server import HttpClient, HttpServer
from understudy.testing import RpcError, say, thread_of


def plant(user: Path) -> None:
    """A command and a skill of the user's own."""
    for path, text in (
        (".claude/commands/sub/fix.md", "---\ndescription: Fix a ticket.\nargument-hint: NUMBER\n---\nFix ticket $1. $ARGUMENTS\n"),
        (
            ".agents/skills/verse/SKILL.md",
            "---\ndescription: Answer in verse.\ndisable-model-invocation: true\n---\nEvery line rhymes.\n",
        ),
    ):
        (user / path).parent.mkdir(parents=True)
        (user / path).write_text(text)


async def test_a_skill_that_a_message_names_is_given_behind_it_and_stays(tmp_path: Path) -> None:
    home = tmp_path / "user" / ".codex"
    plant(home.parent)
    async with scene([say("Roses."), say("Violets.")], tmp_path, home=home) as (model, client):
        thread = thread_of(await client.call_tool("codex", prompt="Use $verse"))
        await client.call_tool("codex-reply", prompt="more", threadId=thread)
    async with scene([say("Blue.")], tmp_path, home=home) as (later, client):
        await client.call_tool("codex-reply", prompt="and more", threadId=thread)
    first = [str(message["content"]) for message in model.requests[0]["messages"]]
    assert first[-2] == "Use $verse"
    assert first[-1].startswith("<skill>\n<name>verse</name>\n<path>")
    assert "Every line rhymes." in first[-1]
    assert not any(text.startswith("<skills>") for text in first), "it is for people alone"
    for request in (model.requests[1], later.requests[0]):
        assert [str(message["content"]) for message in request["messages"]][: len(first)] == first


async def test_a_client_of_mcp_has_them_as_prompts(tmp_path: Path) -> None:
    home = tmp_path / "user" / ".codex"
    plant(home.parent)
    async with scene([], tmp_path, home=home) as (_, client):
        assert client.server_info["capabilities"]["prompts"] == {}
        listed = (await client.request("prompts/list"))["prompts"]
        hint = {"name": "arguments", "required": False}
        assert listed == [
            {"name": "sub:fix", "description": "Fix a ticket.", "arguments": [{**hint, "description": "NUMBER"}]},
            {"name": "verse", "description": "Answer in verse.", "arguments": [{**hint, "description": "what follows the name"}]},
        ]
        got = await client.request("prompts/get", {"name": "sub:fix", "arguments": {"arguments": "12 soon"}})
        assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "Fix ticket 12. 12 soon"}}]
        for params, said in (
            ({"name": "sub:fox"}, "Did you mean `sub:fix`?"),
            ({"name": "sub:fix", "arguments": {"number": "1"}}, "there is no argument 'number'"),
            ({"name": 5}, "Invalid params of prompts/get"),
            ({"name": "sub:fix", "arguments": {"arguments": "x" * 70_000}}, "is longer than"),
        ):
            with pytest.raises(RpcError) as caught:
                await client.request("prompts/get", params)
            assert (caught.value.code, said in str(caught.value.message)) == (-32602, True), caught.value


async def test_an_editor_has_them_as_slash_commands(tmp_path: Path) -> None:
    plant(tmp_path / "home")
    (tmp_path / "home" / ".codex" / "prompts").mkdir(parents=True)
    (tmp_path / "home" / ".codex" / "prompts" / "bomb.md").write_text("$ARGUMENTS " * 20_000)
    async with editor_scene([say("Fixed."), say("As it is.")], tmp_path) as (model, client, work):
        session = await client.new_session(work)
        told = await client.update("available_commands_update")
        assert [(each["name"], each["input"]["hint"]) for each in told["availableCommands"]] == [
            ("bomb", "what follows the name"),
            ("sub:fix", "NUMBER"),
            ("verse", "what follows the name"),
        ]
        await client.prompt(session, "/sub:fix 12")
        await client.prompt(session, "/etc/hosts is a file")
        with pytest.raises(RpcFailed, match="are the most"):
            await client.prompt(session, "/bomb " + "x" * 100_000)
    said = [json.dumps(message["content"]) for message in model.requests[1]["messages"] if message["role"] == "user"]
    assert any("/sub:fix 12" in text and "Fix ticket 12. 12" in text for text in said)
    assert any("/etc/hosts is a file" in text and "<command>" not in text for text in said)


async def test_the_files_of_a_project_do_nothing_before_it_is_trusted(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".claude" / "commands").mkdir(parents=True)
    (work / ".claude" / "commands" / "go.md").write_text("Go. !`touch made`")
    (work / ".claude" / "skills" / "x").mkdir(parents=True)
    (work / ".claude" / "skills" / "x" / "SKILL.md").write_text("---\ndescription: X.\n---\nWords of the project.\n")
    async with scene([say("No.")], work, home=tmp_path / "user" / ".codex") as (model, client):
        assert (await client.request("prompts/list"))["prompts"] == []
        await client.call_tool("codex", prompt="/go and $x", cwd=str(work))
    assert "Words of the project" not in json.dumps(model.requests)
    assert not (work / "made").exists()


OPENAI = """\
version: 1
interface:
  display_name: "Nice Name"
  short_description: 'it''s short'  # for lists

  icon_small: ./assets/small.svg
  icon_large: ../../elsewhere.png
  brand_color: "#aa00ff"
  default_prompt: "Use $oai \\"now\\"."
policy:
  allow_implicit_invocation: false
  display_name: not this one
"""


async def test_the_app_server_lists_skills_and_names_broken_ones(tmp_path: Path) -> None:
    broken = tmp_path / "home" / ".claude" / "skills" / "broken" / "SKILL.md"
    broken.parent.mkdir(parents=True)
    broken.write_text("no head")
    shown = tmp_path / "home" / ".agents" / "skills" / "oai"
    (shown / "agents").mkdir(parents=True)
    (shown / "SKILL.md").write_text("---\ndescription: desc of oai\n---\n")
    (shown / "agents" / "openai.yaml").write_text(OPENAI)
    async with app_scene([], tmp_path) as (_, client, work):
        [row] = (await client.call("skills/list", cwds=[str(work)]))["data"]
    [skill] = row["skills"]
    assert skill["interface"] == {
        "displayName": "Nice Name",
        "shortDescription": "it's short",
        "iconSmall": f"{shown}/assets/small.svg",
        "iconLarge": None,
        "iconSmallUrl": None,
        "iconLargeUrl": None,
        "brandColor": "#aa00ff",
        "defaultPrompt": 'Use $oai "now".',
    }
    assert [error["path"] for error in row["errors"]] == [str(broken)]
    assert "should begin with" in row["errors"][0]["message"]


@pytest.mark.slow
async def test_over_http_only_who_may_work_in_that_folder_has_the_prompts(tmp_path: Path) -> None:
    plant(tmp_path / "user")
    other = tmp_path / "other"
    other.mkdir()
    async with HttpServer(tmp_path) as server:
        tokens = {
            "first": server.token,
            "here": await server.add_token("here", "--root", str(server.cwd)),
            "elsewhere": await server.add_token("elsewhere", "--root", str(other)),
            "reader": await server.add_token("reader", "--rights", "read"),
        }
        seen: dict[str, list[str]] = {}
        for name, token in tokens.items():
            client = HttpClient(server.port, token)
            await client.initialize()
            [answer] = await (await client.post("prompts/list", {})).messages()
            seen[name] = [each["name"] for each in answer["result"]["prompts"]]
            if not seen[name]:
                [refused] = await (await client.post("prompts/get", {"name": "verse"})).messages()
                assert "Unknown prompt" in refused["error"]["message"]
                assert "rhymes" not in str(refused)
        [listed] = await (await HttpClient(server.port, server.token).modern("prompts/list")).messages()
        assert (listed["result"]["ttlMs"], listed["result"]["cacheScope"], len(listed["result"]["prompts"])) == (0, "private", 2)
        named = {"Mcp-Name": "verse"}
        [got] = await (await HttpClient(server.port, server.token).modern("prompts/get", {"name": "verse"}, named)).messages()
        assert "rhymes" in got["result"]["messages"][0]["content"]["text"]
    assert seen == {"first": ["sub:fix", "verse"], "here": ["sub:fix", "verse"], "elsewhere": [], "reader": []}


async def test_a_client_of_the_app_server_sends_a_skill_along_as_an_item(tmp_path: Path) -> None:
    plant(tmp_path / "home")
    async with app_scene([say("Roses.")], tmp_path) as (model, client, work):
        [row] = (await client.call("skills/list", cwds=[str(work)]))["data"]
        [skill] = row["skills"]
        thread = await client.start_thread(work)
        item = {"type": "skill", "name": skill["name"], "path": skill["path"]}
        turn = (await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}, item]))["turn"]["id"]
        await client.turn_over(thread, turn)
    assert "Every line rhymes." in json.dumps(model.requests[0])
