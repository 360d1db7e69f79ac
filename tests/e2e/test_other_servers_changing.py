"""Other servers whose tools change while they run, and a program that was installed without what it needs to reach any."""

import sys
from pathlib import Path

import pytest

from tests.e2e.other_servers import names_offered, program, server
from tests.e2e.scenes import scene, text_of, told_to_model
from understudy.testing import call, say

GROWS = """
import json, sys

names = ["grow"]


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            told = {"protocolVersion": message["params"]["protocolVersion"], "serverInfo": {"name": "grows", "version": "1"}}
            send(id=message["id"], result={**told, "capabilities": {"tools": {"listChanged": True}}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}} for name in names]
            send(id=message["id"], result={"tools": tools})
        case "tools/call":
            names = ["grown"]
            send(method="notifications/tools/list_changed")
            send(id=message["id"], result={"content": [{"type": "text", "text": message["params"]["name"]}]})
"""


@pytest.mark.slow
async def test_a_list_that_has_changed_is_read_again_before_the_next_request(tmp_path: Path) -> None:
    (tmp_path / "grows.py").write_text(GROWS)
    script = [call("mcp__srv__grow"), call("mcp__srv__grown", call_id="call2"), say("Done.")]
    config = program("srv", sys.executable, str(tmp_path / "grows.py"))
    async with scene(script, tmp_path, config=config) as (model, client):
        assert text_of(await client.codex("go")) == "Done."
        offered = [[name for name in names_offered(request) if name.startswith("mcp__")] for request in model.requests]
        assert offered == [["mcp__srv__grow"], ["mcp__srv__grown"], ["mcp__srv__grown"]]
        assert told_to_model(model.requests[2], "call2") == "grown"


@pytest.mark.slow
@pytest.mark.parametrize("required", [False, True])
async def test_without_the_package_the_report_says_what_to_install(tmp_path: Path, required: bool) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "mcp.py").write_text('raise ImportError("not installed")\n')
    config, env = server("srv", required=required), {"PYTHONPATH": str(hidden)}
    async with scene([] if required else [say("Done.")], tmp_path, config=config, env=env) as (_, client):
        result = await client.codex("go")
        if required:
            assert result["isError"] is True
            told = text_of(result)
        else:
            [missing] = result["structuredContent"]["report"]["missing_servers"]
            assert (text_of(result), missing["server"]) == ("Done.", "srv")
            told = missing["error"]
        assert "tools of MCP servers need the package `mcp`" in told
        assert "uv tool install '.[mcp]'" in told
