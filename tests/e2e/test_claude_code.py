"""Claude Code as it is released: what its model is given of a call, at a terminal and with `-p`."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.claude_code import MessagesModel, command, in_terminal, text, use
from understudy.testing import SERVER_COMMAND
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

HELLO = '[{"say": "Hello from the session."}]'
TOUCH = '[{"call": "shell", "arguments": {"command": ["touch", "made.txt"]}}, {"say": "done"}]'


def server(folder: Path, script: str) -> dict[str, Any]:
    """The entry of ours in its configuration."""
    home = folder / "codex home"
    home.mkdir()
    (home / "script.json").write_text(script)
    settings = {"model_provider": "scripted", "approval_policy": "untrusted"}
    settings["understudy.scripted_model"] = str(home / "script.json")
    (home / "config.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
    watched = f"tee {shlex.quote(str(home / 'seen'))} | exec {shlex.join(SERVER_COMMAND)}"
    return {"type": "stdio", "command": "sh", "args": ["-c", watched], "env": {"CODEX_HOME": str(home)}}


def asked_for_tools(folder: Path) -> bool:
    """Whether the client has got as far as that: it shows its prompt earlier."""
    seen = folder / "codex home" / "seen"
    return seen.exists() and "tools/list" in seen.read_text()


def test_at_a_terminal_a_call_goes_to_the_background_and_its_result_comes_as_a_notification(tmp_path: Path) -> None:
    """The ids of tasks are short enough for it, the tools are offered without a search, and the report is brief."""
    with MessagesModel([use("mcp__codex__codex", prompt="hi"), text("started it"), text("saw the end")]) as model:
        argv, environment = command(tmp_path, model, server(tmp_path, HELLO))
        with in_terminal(argv, environment, tmp_path) as terminal:
            terminal.until(lambda: "❯" in terminal.shown and asked_for_tools(tmp_path))
            terminal.enter("delegate")
            terminal.until(lambda: len(model.requests) >= 3)
    offered = [tool["name"] for tool in model.requests[1]["tools"]]
    assert {"mcp__codex__codex", "mcp__codex__codex-reply"} <= set(offered)
    begun = json.dumps(model.requests[1]["messages"][-1])
    assert re.search(r"started server-side task [\x21-\x7e]{1,48}\. It was moved to the background", begun), begun
    ended = json.dumps(model.requests[2]["messages"][-1])
    assert "<status>completed</status>" in ended
    assert "Hello from the session." in ended
    assert "seconds" not in ended, "the whole report"


def test_without_a_terminal_it_is_told_which_question_was_cancelled_and_what_to_set(tmp_path: Path) -> None:
    with MessagesModel([use("mcp__codex__codex", prompt="hi"), text("I see")]) as model:
        argv, environment = command(tmp_path, model, server(tmp_path, TOUCH), "-p", "delegate")
        done = subprocess.run(
            argv,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=4 * WAIT_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done
    told = json.dumps(model.requests[-1]["messages"])
    assert "touch made.txt" in told
    assert "the client cancelled the question" in told
    assert "approval-policy never" in told
    assert not (tmp_path / "made.txt").exists()
