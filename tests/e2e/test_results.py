"""What a result says beside the answer: the session, where a model can read it, and what was refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import ANSWERS_NO_QUESTION, ANY_REPORT, answered, scene, text_of, thread_of
from understudy.testing import McpProcess, ScriptedModel, call, say, status

ASKING = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access"}
REASON = "the client cannot be asked for approval, because it did not declare the elicitation capability"


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_answers_and_failures_name_the_session_in_a_second_text(tmp_path: Path, wire: str) -> None:
    async with scene([say("one"), status(400, "no"), say("two")], tmp_path, config={"understudy.wire": wire}) as (_, client):
        result = await client.call_tool("codex", prompt="1")
        thread = thread_of(result)
        assert result == answered("one", thread)
        failed = await client.call_tool("codex-reply", threadId=thread, prompt="2")
        assert failed["isError"] is True
        assert failed["content"][1] == result["content"][1]
        assert failed["error"] == text_of(failed) == failed["structuredContent"]["content"]
        assert await client.call_tool("codex-reply", threadId=thread, prompt="3") == answered("two", thread)


async def test_a_key_leaves_the_line_out(tmp_path: Path) -> None:
    async with scene([say("one")], tmp_path, config={"understudy.thread_in_text": False}) as (_, client):
        result = await client.call_tool("codex", prompt="1")
        assert result["content"] == [{"text": "one", "type": "text"}]
        assert result["structuredContent"]["threadId"]


async def test_a_call_that_began_no_session_has_one_text(tmp_path: Path) -> None:
    async with scene([], tmp_path) as (_, client):
        assert len((await client.call_tool("codex", prompt=1))["content"]) == 1


async def test_a_caller_that_cannot_be_asked_is_told_what_was_refused_and_why(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch"
    script = [
        call("shell", command=["touch", "made file"]),
        call("apply_patch", call_id="call2", input=patch),
        say("could not"),
        say("nothing to do"),
    ]
    async with scene(script, tmp_path, config=ASKING, capabilities=ANSWERS_NO_QUESTION) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        thread = thread_of(result)
        assert "isError" not in result
        assert text_of(result) == "could not", "what a program reads is the answer alone"
        refused = [
            {"call_id": "call1", "what": "touch 'made file'", "reason": REASON},
            {"call_id": "call2", "what": "changes to 2 files", "reason": REASON},
        ]
        assert result["structuredContent"] == {
            "threadId": thread,
            "content": "could not",
            "refused": refused,
            "report": ANY_REPORT,
        }
        lines = result["content"][1]["text"].lstrip().splitlines()
        assert lines[:2] == [f"refused: {one['what']}: {REASON}" for one in refused]
        assert "approval-policy" in lines[2]
        assert lines[3] == answered("", thread)["content"][1]["text"].lstrip()
        assert await client.call_tool("codex-reply", threadId=thread, prompt="again") == answered("nothing to do", thread)
        assert not (tmp_path / "made file").exists()


@pytest.mark.slow
async def test_what_the_user_denied_is_no_news(tmp_path: Path) -> None:
    async with scene([call("shell", command=["touch", "made"]), say("ok")], tmp_path, config=ASKING) as (_, client):
        turn = client.call_tool("codex", prompt="go")
        await client.respond(await client.next_request("elicitation/create"), {"action": "decline"})
        result = await turn
        assert result == answered("ok", thread_of(result))


class Named(McpProcess):
    """A client that calls itself something."""

    def __init__(self, name: str, version: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, initialize=False, **options)
        self._info = {"name": name, "version": version}

    async def greet(self, protocol: str, *, first: bool, **capabilities: Any) -> None:
        if not first:
            assert await self.request("ping") == {}, "then the greeting is not the first line"
        await self.request("initialize", {"protocolVersion": protocol, "capabilities": capabilities, "clientInfo": self._info})


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("name", "version", "protocol", "setting", "methods"),
    [
        ("anyone", "1", "2024-11-05", None, {"codex/event", "task_complete"}),
        ("anyone", "1", "2025-06-18", None, {"codex/event", "task_complete"}),
        ("anyone", "1", "2025-11-25", None, {"codex/event"}),
        ("mcp", "0.1.0", "2025-06-18", None, set[str]()),
        ("mcp", "0.1.0", "2025-11-25", "auto", set[str]()),
        ("mcp", "2.0", "2025-06-18", "auto", {"codex/event", "task_complete"}),
        ("mcp", "0.1.0", "2025-11-25", "both", {"codex/event", "task_complete"}),
        ("anyone", "1", "2025-06-18", "none", set[str]()),
    ],
)
@pytest.mark.quick(1)
async def test_events_go_out_by_what_the_client_is(
    tmp_path: Path, name: str, version: str, protocol: str, setting: str | None, methods: set[str], first: bool
) -> None:
    config = {} if setting is None else {"understudy.events": setting}
    async with ScriptedModel([say("ok")]) as model, Named(name, version, model.url, cwd=tmp_path, config=config) as client:
        await client.greet(protocol, first=first)
        await client.call_tool("codex", prompt="go")
        told = {frame["method"] for frame in client.frames if "msg" in frame.get("params", {})}
        assert told & {"codex/event", "task_complete"} == methods


@pytest.mark.slow
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("capabilities", "methods"), [({"extensions": {}}, {"codex/event"}), ({"experimental": {}}, set[str]())])
async def test_a_python_client_gets_events_once_it_declares_extensions(
    tmp_path: Path, capabilities: dict[str, Any], methods: set[str], first: bool
) -> None:
    async with ScriptedModel([say("ok")]) as model, Named("mcp", "0.1.0", model.url, cwd=tmp_path) as client:
        await client.greet("2025-11-25", first=first, **capabilities)
        await client.call_tool("codex", prompt="go")
        assert {frame["method"] for frame in client.frames if "msg" in frame.get("params", {})} == methods
