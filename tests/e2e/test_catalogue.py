"""`tools/list`: a superset of what clients of both times know, and results that fit the published schemas."""

from pathlib import Path
from typing import Any

from understudy.testing import McpProcess

SEED_CODEX: dict[str, dict[str, Any]] = {
    "approval-policy": {"type": "string", "enum": ["untrusted", "on-failure", "never"]},
    "base-instructions": {"type": "string"},
    "config": {"type": "object", "additionalProperties": True},
    "cwd": {"type": "string"},
    "include-plan-tool": {"type": "boolean"},
    "model": {"type": "string"},
    "profile": {"type": "string"},
    "prompt": {"type": "string"},
    "sandbox": {"type": "string", "enum": ["read-only", "workspace-write", "danger-full-access"]},
}
HEAD_CODEX: dict[str, dict[str, Any]] = {
    "approval-policy": {"type": "string", "enum": ["on-request", "never"]},
    "base-instructions": {"type": "string"},
    "compact-prompt": {"type": "string"},
    "config": {"type": "object", "additionalProperties": True},
    "cwd": {"type": "string"},
    "developer-instructions": {"type": "string"},
    "model": {"type": "string"},
    "prompt": {"type": "string"},
    "sandbox": {"type": "string", "enum": ["read-only", "workspace-write", "danger-full-access"]},
}
REPLY = {name: {"type": "string"} for name in ("prompt", "sessionId", "conversationId", "threadId")}
RESULT = {"threadId": {"type": "string"}, "content": {"type": "string"}}

CONVERSATIONS: dict[str, tuple[set[str], list[str]]] = {
    "conversationCreate": (
        {"prompt", "model", "cwd", "approval_policy", "sandbox", "config", "profile", "base_instructions"},
        [],
    ),
    "conversationSendMessage": (
        {"conversation_id", "content", "parent_message_id", "model", "cwd", "approval_policy", "sandbox", "config", "profile"}
        | {"base_instructions"},
        ["conversation_id", "content"],
    ),
    "conversationStream": ({"conversation_id", "after"}, ["conversation_id"]),
    "conversationsList": ({"limit", "cursor", "archived"}, []),
    "conversationsSearch": ({"query", "folder", "since", "role", "limit", "cursor"}, ["query"]),
    "conversationInterrupt": ({"conversation_id"}, ["conversation_id"]),
    "conversationFork": ({"conversation_id", "message_id"}, ["conversation_id"]),
    "conversationApprove": ({"conversation_id", "call_id", "decision"}, ["conversation_id", "call_id", "decision"]),
    "conversationRename": ({"conversation_id", "title"}, ["conversation_id", "title"]),
    "conversationArchive": ({"conversation_id"}, ["conversation_id"]),
    "conversationUnarchive": ({"conversation_id"}, ["conversation_id"]),
    "conversationDelete": ({"conversation_id"}, ["conversation_id"]),
}


def assert_covers(published: dict[str, Any], known: dict[str, dict[str, Any]]) -> None:
    for name, schema in known.items():
        for key, value in schema.items():
            if key == "enum":
                assert set(value) <= set(published[name]["enum"]), name
            else:
                assert published[name][key] == value, name
        assert published[name]["description"], name


async def test_the_tools_are_a_superset_of_both_times(tmp_path: Path) -> None:
    async with McpProcess(cwd=tmp_path) as client:
        listed = await client.request("tools/list")
        assert list(listed) == ["tools"]
        assert await client.request("tools/list", {"cursor": "whatever"}) == listed
        tools = {tool["name"]: tool for tool in listed["tools"]}
        assert [tool["name"] for tool in listed["tools"]][:2] == ["codex", "codex-reply"]

        codex, reply = tools["codex"], tools["codex-reply"]
        assert (codex["title"], reply["title"]) == ("Codex", "Codex Reply")
        for known in (SEED_CODEX, HEAD_CODEX):
            assert_covers(codex["inputSchema"]["properties"], known)
        assert codex["inputSchema"]["required"] == ["prompt"]
        assert_covers(reply["inputSchema"]["properties"], REPLY)
        assert "required" not in reply["inputSchema"], "without a prompt it waits on"
        for tool in (codex, reply):
            assert_covers(tool["outputSchema"]["properties"], RESULT)
            assert sorted(tool["outputSchema"]["required"]) == ["content", "threadId"]

        for name, (properties, required) in CONVERSATIONS.items():
            schema = tools[name]["inputSchema"]
            assert properties <= set(schema["properties"]), name
            assert schema["required"] == required, name
        for tool in listed["tools"]:
            assert tool["description"]
            assert tool["inputSchema"]["type"] == "object"
            assert {"title", "readOnlyHint"} <= set(tool["annotations"]), tool["name"]
        reads = {name for name, tool in tools.items() if tool["annotations"]["readOnlyHint"]}
        assert reads == {"conversationStream", "conversationsList", "conversationsSearch"}
        assert tools["conversationDelete"]["annotations"]["destructiveHint"] is True
