"""Beside every answer: what the turn did and used, from the log."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scenes import scene, session_of, text_of, thread_of
from understudy.testing import HOLD, McpProcess, ScriptedModel, call, deltas, say, status

FULL: dict[str, Any] = {"understudy.report": "full"}
FREE: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "danger-full-access"}
PATCH = "*** Begin Patch\n*** Add File: made.py\n+one\n+two\n*** End Patch"
RUNNER = "#!/bin/sh\nexit 3\n"


def report_in(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["structuredContent"]["report"])


@pytest.mark.quick(1)
@pytest.mark.parametrize("wire", ["seed", "modern"])
async def test_a_result_tells_files_failed_commands_and_tokens_of_its_turn_alone(tmp_path: Path, wire: str) -> None:
    runner = tmp_path / "pytest"
    runner.write_text(RUNNER)
    runner.chmod(0o755)
    script = [
        call("apply_patch", call_id="p", input=PATCH),
        call("shell", call_id="t", command=["bash", "-c", "cd . && ./pytest -q"]) + say("ran", usage=(100, 20)),
        say("done", usage=(10, 5)),
        say("nothing", usage=(1, 1)),
    ]
    async with scene(script, tmp_path, config={**FREE, "understudy.wire": wire}) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        report = report_in(result)
        assert report["files"] == [{"path": str(tmp_path / "made.py"), "change": "added", "added": 2, "removed": 0}]
        (command,) = report["commands"]
        assert (command["command"], command["exit_code"]) == (["bash", "-c", "cd . && ./pytest -q"], 3)
        assert command["seconds"] >= 0
        assert report["tokens"] == 135
        assert "seconds" not in report
        again = await client.call_tool("codex-reply", threadId=thread_of(result), prompt="more")
        assert report_in(again)["files"] == report_in(again)["commands"] == []
        assert report_in(again)["tokens"] == 2


async def test_a_failed_turn_tells_what_it_did_before(tmp_path: Path) -> None:
    script = [call("shell", command=["true"]), status(400, "no")]
    async with scene(script, tmp_path, config=FREE | FULL) as (_, client):
        result = await client.call_tool("codex", prompt="go")
        assert result["isError"] is True
        assert [command["exit_code"] for command in report_in(result)["commands"]] == [0]


@pytest.mark.slow
async def test_a_call_that_joined_has_the_report_of_the_whole_turn(tmp_path: Path) -> None:
    script = [call("shell", command=["true"]), deltas(["a", HOLD, "b"]), say("done")]
    async with ScriptedModel(script) as model, McpProcess(model.url, cwd=tmp_path, config=FREE | FULL) as client:
        first = client.call_tool("codex", prompt="go")
        thread = await session_of(client, first)
        await client.event("agent_message_delta", first)
        second = client.call_tool("codex-reply", threadId=thread, prompt="and this")
        await client.request("ping")
        model.release()
        assert report_in(await first) == report_in(await second)
        assert [command["command"] for command in report_in(await second)["commands"]] == [["true"]]


@pytest.mark.slow
async def test_a_turn_that_is_taken_up_after_a_kill_reports_what_it_did_before(tmp_path: Path) -> None:
    script = [call("shell", command=["ls"]), call("shell", call_id="q", command=["touch", "x"]), say("done")]
    home = tmp_path / "home"
    home.mkdir()
    asking = {"approval_policy": "untrusted", "sandbox_mode": "danger-full-access", **FULL}
    async with ScriptedModel(script) as model:
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=asking) as first:
            begun = first.call_tool("codex", prompt="go")
            thread = await session_of(first, begun)
            await first.respond(await first.next_request("elicitation/create"), {"action": "accept"})
            await first.next_request("elicitation/create")
            await first.kill()
        async with McpProcess(model.url, cwd=tmp_path, home=home, config=asking) as second:
            resumed = second.call_tool("codex-reply", threadId=thread, prompt="well?")
            await second.respond(await second.next_request("elicitation/create"), {"action": "accept"})
            result = await resumed
            assert text_of(result) == "done"
            assert [command["command"] for command in report_in(result)["commands"]] == [["ls"], ["touch", "x"]]


@pytest.mark.quick(1)
@pytest.mark.parametrize("spelled", ["report", "REPORT"])
async def test_a_call_can_ask_for_the_full_report_whatever_is_configured(tmp_path: Path, spelled: str) -> None:
    script = [call("shell", command=["true"]), say("done")]
    async with scene(script, tmp_path, config=FREE) as (_, client):
        result = await client.call_tool("codex", prompt="go", **{spelled: "full"})
        assert [command["command"] for command in report_in(result)["commands"]] == [["true"]]
        assert report_in(result)["seconds"] > 0
        waited = await client.call_tool("codex-reply", threadId=thread_of(result), report="full")
        assert report_in(waited) == report_in(result)
        assert report_in(await client.call_tool("codex-reply", threadId=thread_of(result)))["commands"] == []
        wrong = await client.call_tool("codex-reply", threadId=thread_of(result), prompt="x", report="fulll")
        assert "Did you mean `full`?" in text_of(wrong)
