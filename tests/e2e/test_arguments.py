"""Arguments that are wrong: a successful response with `isError`, whose first line clients know."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, text_of
from understudy.testing import McpProcess, say

PARSE = "Failed to parse configuration for Codex tool: "
POLICIES = "expected one of `untrusted`, `on-failure`, `on-request`, `never`"
MODES = "expected one of `read-only`, `workspace-write`, `danger-full-access`"
SOMEBODY = "67e55044-10b1-426f-9247-bb680e5fe0c8"

CODEX: list[tuple[Any, str]] = [
    (None, "Missing arguments for codex tool-call; the `prompt` field is required."),
    ({}, f"{PARSE}missing field `prompt`"),
    ({"prompt": 5}, f"{PARSE}invalid type: integer `5`, expected a string"),
    ({"prompt": None}, f"{PARSE}invalid type: null, expected a string"),
    ({"prompt": {}}, f"{PARSE}invalid type: map, expected a string"),
    ({"prompt": 1.5}, f"{PARSE}invalid type: floating point `1.5`, expected a string"),
    ({"prompt": True}, f"{PARSE}invalid type: boolean `true`, expected a string"),
    ({"prompt": "hi", "approval-policy": "bogus"}, f"{PARSE}unknown variant `bogus`, {POLICIES}"),
    ({"prompt": "hi", "sandbox": "bogus"}, f"{PARSE}unknown variant `bogus`, {MODES}"),
    ({"prompt": "hi", "sandbox": 5}, f"{PARSE}invalid type: integer `5`, expected a string"),
    ({"prompt": "hi", "config": []}, f"{PARSE}invalid type: sequence, expected a map"),
    ({"prompt": "hi", "include-plan-tool": "yes"}, f'{PARSE}invalid type: string "yes", expected a boolean'),
    ("hi", f'{PARSE}invalid type: string "hi", expected struct CodexToolCallParam'),
    (5, f"{PARSE}invalid type: integer `5`, expected struct CodexToolCallParam"),
    ([], f"{PARSE}invalid length 0, expected struct CodexToolCallParam"),
    ({"prompt": "hi", "profile": "nobody"}, "Failed to load Codex configuration from overrides: config profile `nobody` not found"),
    (
        {"prompt": "hi", "config": {"model_provider": "nobody"}},
        "Failed to load Codex configuration from overrides: Model provider `nobody` not found",
    ),
]

REPLY: list[tuple[Any, str]] = [
    (None, "Missing arguments for codex-reply tool-call; the `session_id` and `prompt` fields are required."),
    ({}, f"{PARSE}missing field `sessionId`"),
    ({"prompt": "hi"}, f"{PARSE}missing field `sessionId`"),
    ({"sessionId": SOMEBODY}, f"Session not found for session_id: {SOMEBODY}"),  # without a prompt it would wait
    ({"sessionId": SOMEBODY, "images": ["x.png"]}, f"{PARSE}missing field `prompt`"),
    ({"sessionId": 1, "prompt": "hi"}, f"{PARSE}invalid type: integer `1`, expected a string"),
    ({"sessionId": SOMEBODY, "prompt": 1}, f"{PARSE}invalid type: integer `1`, expected a string"),
    (
        {"sessionId": "not-a-uuid", "prompt": "hi"},
        "Failed to parse session_id: invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], "
        "found `n` at 1",
    ),
    (
        {"sessionId": "", "prompt": "hi"},
        "Failed to parse session_id: invalid length: expected length 32 for simple format, found 0",
    ),
    (
        {"sessionId": "67e55044-10b1-426f-9247", "prompt": "hi"},
        "Failed to parse session_id: invalid group count: expected 5, found 4",
    ),
    ({"sessionId": SOMEBODY, "prompt": "hi"}, f"Session not found for session_id: {SOMEBODY}"),
    ({"threadId": SOMEBODY.upper(), "prompt": "hi"}, f"Session not found for session_id: {SOMEBODY}"),
    ({"conversationId": f"{{{SOMEBODY}}}", "prompt": "hi"}, f"Session not found for session_id: {SOMEBODY}"),
]


async def test_every_mistake_has_its_first_line(tmp_path: Path) -> None:
    async with McpProcess("http://127.0.0.1:9/v1", cwd=tmp_path) as client:
        for tool, table in (("codex", CODEX), ("codex-reply", REPLY)):
            for arguments, line in table:
                params = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
                result = await client.request("tools/call", params)
                assert result["isError"] is True, (tool, arguments)
                assert text_of(result).splitlines()[0] == line, (tool, arguments)
                assert [content["type"] for content in result["content"]] == ["text"]
        assert client.notifications("codex/event") == [], "nothing was begun"


async def test_a_mistyped_name_is_refused_and_the_right_one_named(tmp_path: Path) -> None:
    async with McpProcess("http://127.0.0.1:9/v1", cwd=tmp_path) as client:
        for wrong, right in (("aproval-policy", "approval-policy"), ("promt", "prompt"), ("sandbox_mod", "sandbox")):
            text = text_of(await client.call_tool("codex", {"prompt": "hi", wrong: "x"}))
            assert text.startswith(f"{PARSE}unknown field `{wrong}`, expected one of `prompt`, ")
            assert text.endswith(f"Did you mean `{right}`?")


@pytest.mark.slow
async def test_names_are_taken_in_every_case(tmp_path: Path) -> None:
    async with McpProcess("http://127.0.0.1:9/v1", cwd=tmp_path) as client:
        for spelling in ("approval-policy", "approvalPolicy", "approval_policy"):
            text = text_of(await client.call_tool("codex", {"prompt": "hi", spelling: "bogus"}))
            assert text.startswith(f"{PARSE}unknown variant `bogus`")


async def test_a_folder_that_is_not_there_is_an_error_and_no_session(tmp_path: Path) -> None:
    async with McpProcess("http://127.0.0.1:9/v1", cwd=tmp_path) as client:
        result = await client.call_tool("codex", prompt="hi", cwd=str(tmp_path / "nowhere"))
        assert text_of(result).startswith("Failed to load Codex configuration from overrides: ")
        assert str(tmp_path / "nowhere") in text_of(result)
        listed = await client.call_tool("conversationsList")
        assert listed["structuredContent"] == {"conversations": []}


async def test_null_means_absent_and_a_relative_folder_starts_at_the_server_s(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with scene([say("ok")], tmp_path) as (_, client):
        result = await client.call_tool("codex", {"prompt": "", "model": None, "config": None, "cwd": "sub"})
        assert text_of(result) == "ok", "an empty prompt is allowed"
        listed = await client.call_tool("conversationsList")
        assert listed["structuredContent"]["conversations"][0]["cwd"] == str(tmp_path / "sub")


async def test_a_broken_configuration_fails_the_call_and_not_the_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with McpProcess(cwd=tmp_path, home=home) as client:
        for text, words in (
            ("model = [", "config.toml"),
            ("model = 5", "model"),
            ('approval_policy = "zz"\nmodel = "m"', "approval_policy"),
        ):
            (home / "config.toml").write_text(text)
            result = await client.call_tool("codex", prompt="hi")
            assert text_of(result).startswith("Failed to load Codex configuration from overrides: "), text
            assert words in text_of(result)
            assert result["isError"] is True
        assert await client.request("ping") == {}


@pytest.mark.slow
async def test_a_configuration_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path, home=tmp_path, env={"CODEX_HOME": str(tmp_path / "nowhere")}) as client:
        result = await client.call_tool("codex", prompt="hi")
        assert result["isError"] is True
        assert str(tmp_path / "nowhere") in text_of(result)
        assert await client.request("ping") == {}


async def test_what_names_no_session_or_tool_is_told_what_would(tmp_path: Path) -> None:
    async with McpProcess("http://127.0.0.1:9/v1", cwd=tmp_path) as client:
        text = text_of(await client.call_tool("codex-reply", prompt="hi", threadId="the last one"))
        assert "`threadId` of an earlier result" in text
        assert "conversationsList" in text
        text = text_of(await client.call_tool("codex-reply", prompt="hi", threadId=SOMEBODY))
        assert "conversationsList" in text
        for tool in ("conversationStream", "conversationInterrupt", "conversationDelete"):
            assert "`threadId` of an earlier result" in text_of(await client.call_tool(tool, conversation_id="x")), tool
        assert text_of(await client.call_tool("codex_replay", prompt="hi")) == (
            "Unknown tool 'codex_replay'\nDid you mean `codex-reply`?"
        )
        assert text_of(await client.call_tool("zzz")) == "Unknown tool 'zzz'"
        text = text_of(await client.call_tool("codex", {"prompt": "hi", "approval-policy": "untrustd"}))
        assert text == f"{PARSE}unknown variant `untrustd`, {POLICIES}\nDid you mean `untrusted`?\nin `approval-policy`"
