"""The tools that read and edit files, in the real program: what clients see of them, and the report of the turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, told_to_model
from understudy.testing import call, say

NEVER: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "workspace-write"}


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_a_read_is_shown_as_a_call_of_our_own_tools(tmp_path: Path, wire: str) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    script = [call("read_file", path="a.txt"), call("search", call_id="call2", pattern="(", path="a.txt"), say("done")]
    async with scene(script, tmp_path, config={**NEVER, "understudy.wire": wire}) as (model, client):
        result = await client.codex("go")
        assert told_to_model(model.requests[1]) == "     1\tone"
        shown = [event for event in client.events() if event["type"].startswith("mcp_tool_call")]
    invocation = {"server": "codex", "tool": "read_file", "arguments": {"path": "a.txt"}}
    assert [event["type"] for event in shown] == ["mcp_tool_call_begin", "mcp_tool_call_end"] * 2
    assert shown[0]["invocation"] == shown[1]["invocation"] == invocation
    assert shown[1]["result"] == {"Ok": {"content": [{"type": "text", "text": "     1\tone"}]}}
    assert shown[3]["result"]["Err"].startswith("a.txt: the pattern is no regular expression")
    assert "tools" not in result["structuredContent"]["report"]  # which tells of what other servers did


async def test_an_edit_is_shown_and_reported_as_a_patch(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\r\ntwo\r\n")
    script = [call("edit_file", path="a.txt", old_text="one\n", new_text="1\n1b\n"), say("done")]
    async with scene(script, tmp_path, config=NEVER) as (model, client):
        result = await client.codex("go")
        assert "M a.txt" in told_to_model(model.requests[1])
        events = {event["type"]: event for event in client.events()}
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n1b\r\ntwo\r\n"
    assert list(events["patch_apply_begin"]["changes"]) == [str(tmp_path / "a.txt")]
    assert events["patch_apply_end"]["success"] is True
    assert "+1b" in events["turn_diff"]["unified_diff"]
    [file] = result["structuredContent"]["report"]["files"]
    assert (file["change"], file["added"], file["removed"]) == ("updated", 2, 1)


async def test_a_failed_edit_tells_the_model_how_to_mend_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x = 1\nx = 1\n")
    script = [
        call("edit_file", path="a.txt", old_text="x = 1", new_text="x = 2"),
        call("edit_file", call_id="call2", path="a.txt", old_text="x = 1", new_text="x = 2", replace_all=True),
        say("done"),
    ]
    async with scene(script, tmp_path, config=NEVER) as (model, client):
        await client.codex("go")
        assert "2 times (lines 1, 2)" in told_to_model(model.requests[1])
    assert (tmp_path / "a.txt").read_text() == "x = 2\nx = 2\n"
