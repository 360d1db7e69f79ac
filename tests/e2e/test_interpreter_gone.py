"""The environment of a running server is made anew, as by an upgrade: its Python is gone for a while."""

import sys
from pathlib import Path

from understudy.testing import McpProcess, ScriptedModel, call, say

PROGRAM = """
import sys
sys.executable = sys.argv[1]
sys.argv[1:] = ["mcp-server"]
from understudy.cli.main import main
sys.exit(main())
"""


async def test_commands_say_what_is_missing_and_run_once_it_is_back(tmp_path: Path) -> None:
    python, cwd = tmp_path / "python", tmp_path / "work"
    cwd.mkdir()
    run = call("shell", command=["echo", "hi"])
    async with ScriptedModel([run, say("It failed."), run, say("It ran.")]) as model:
        client = McpProcess(model.url, cwd=cwd, command=(sys.executable, "-c", PROGRAM, str(python)))
        async with client:
            result = await client.call_tool("codex", prompt="run it", sandbox="workspace-write")
            assert result["structuredContent"]["content"] == "It failed."
            told = model.requests[-1]["messages"][-1]["content"]
            assert told.startswith("execution error: the command was not run: ")
            assert str(python) in told

            python.symlink_to(sys.executable)
            thread = result["structuredContent"]["threadId"]
            result = await client.call_tool("codex-reply", threadId=thread, prompt="again", report="full")
            assert result["structuredContent"]["content"] == "It ran."
            assert [command["exit_code"] for command in result["structuredContent"]["report"]["commands"]] == [0]
    assert "Traceback" not in client.stderr, client.stderr
