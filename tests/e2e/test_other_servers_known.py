"""Well-known servers of other people, beside servers that misbehave: the good ones answer in every case."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.other_servers import names_offered, program, server
from tests.e2e.scenes import scene, text_of, told_to_model
from tests.support.environments import node_with, python_with
from understudy.testing import call, say

pytestmark = pytest.mark.slow

OPEN: dict[str, Any] = {"approval_policy": "never", "sandbox_mode": "danger-full-access"}  # no question: it is not what is tested
TOKYO = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
PRINTS_FOR_EVER = "while True: print('this is no message ' * 500)"


def known_servers() -> dict[str, Any]:
    folder = node_with("@modelcontextprotocol/server-everything@2026.8.31")
    python = python_with("mcp-server-time==2026.10.19")
    everything = str(folder / "node_modules" / ".bin" / "mcp-server-everything")
    return (
        OPEN | program("everything", everything) | program("time", str(python), "-m", "mcp_server_time", "--local-timezone", "UTC")
    )


def use_of_both() -> list[Any]:
    return [
        call("mcp__everything__echo", call_id="echo", message="hello"),
        call("mcp__time__convert_time", call_id="time", **TOKYO),
    ]


def assert_both_answered(request: dict[str, Any]) -> None:
    assert "hello" in told_to_model(request, "echo")
    assert json.loads(told_to_model(request, "time"))["time_difference"] == "+9.0h"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (server("bad", "dies"), "cannot start: no licence"),
        (server("bad", "hangstart", startup_timeout_sec=2), "not ready within 2 seconds"),
        (server("bad", "hanglist", startup_timeout_sec=2), "not ready within 2 seconds"),
        (program("bad", sys.executable, "-c", PRINTS_FOR_EVER), "that is no message"),
    ],
    ids=["crashes", "hangs", "hangs when asked for its tools", "floods"],
)
async def test_they_answer_beside_a_server_that_cannot_be_started(tmp_path: Path, bad: dict[str, Any], why: str) -> None:
    script = [*use_of_both(), say("Done.")]
    async with scene(script, tmp_path, config=known_servers() | bad) as (model, client):
        result = await client.codex("go")
        assert text_of(result) == "Done."
        assert {"mcp__everything__echo", "mcp__time__convert_time"} <= set(names_offered(model.requests[0]))
        assert_both_answered(model.requests[-1])
        [missing] = result["structuredContent"]["report"]["missing_servers"]
        assert (missing["server"], why in missing["error"]) == ("bad", True), missing


@pytest.mark.parametrize(
    ("tool", "told"),
    [("crashes", "the program ended with exit code 9"), ("hangs", "timed out awaiting tools/call"), ("floods", "omitted")],
)
async def test_they_answer_after_a_tool_of_another_server_went_wrong(tmp_path: Path, tool: str, told: str) -> None:
    script = [call(f"mcp__bad__{tool}", call_id="bad"), *use_of_both(), say("Done.")]
    config = known_servers() | server("bad", tool_timeout_sec=1)
    async with scene(script, tmp_path, config=config) as (model, client):
        assert text_of(await client.codex("go")) == "Done."
        assert told in told_to_model(model.requests[-1], "bad")
        assert_both_answered(model.requests[-1])
