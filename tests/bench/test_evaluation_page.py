"""The adapters of docs/evaluation.md with the harnesses' own code, a scripted model, and no container."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.e2e.real_clients import run_client
from tests.support.environments import cache_folder, python_with
from understudy.testing import CodexHome, ScriptedModel, call, say
from understudy.testing.waiting import WAIT_SECONDS

PAGE = ROOT / "docs" / "evaluation.md"
HARBOR = "harbor==0.25.0"
ACP = "agent-client-protocol==0.12.1"
INSPECT = ("inspect-swe==0.2.72", "inspect-ai==0.3.285")
SCRIPT = [call("shell", command=["touch", "made.txt"]), say("It is there.", usage=(10, 2))]


def entry() -> dict[str, Any]:
    [block] = [block for block in blocks("json") if block.page == PAGE]
    return json.loads(block.text)


def agent_file() -> str:
    [block] = [block for block in blocks("python") if block.page == PAGE]
    return block.text


def test_the_entry_starts_this_version_of_ours() -> None:
    from understudy import __version__

    given = entry()
    assert given["version"] == __version__.partition(".dev")[0]
    assert given["distribution"]["uvx"]["args"] == given["distribution"]["local"]["args"]
    assert given["distribution"]["local"]["cmd"] == "understudy"
    assert given["distribution"]["uvx"]["package"].startswith("git+https://"), "a package index has no understudy of ours"
    assert set(given) == {"id", "name", "version", "description", "distribution"}


@pytest.mark.slow
async def test_harbors_runner_finishes_a_task(tmp_path: Path) -> None:
    """Harbor itself wants a later Python than ours; its runner, which it copies into containers, does not."""
    python = python_with(ACP)
    work, logs, runner = tmp_path / "work", tmp_path / "logs", tmp_path / "runner.py"
    work.mkdir()
    runner.write_text(harbor_runner().read_text())  # alone, as in a container: beside it lies a module called `acp`
    async with ScriptedModel(SCRIPT) as model:
        home = CodexHome(tmp_path / "home" / ".codex", model, config={"model_context_window": 100_000})
        local = entry()["distribution"]["local"]
        launcher = tmp_path / "launch.sh"
        ours = shlex.join([sys.executable, "-m", local["cmd"], *local["args"]])
        launcher.write_text(f'#!/bin/sh\nexec {ours} "$@"\n')
        launcher.chmod(0o755)
        process = await asyncio.create_subprocess_exec(
            *(python, runner, "--instruction", "make a file", "--logs-dir", logs, "--launcher", launcher),
            cwd=work,
            env={**os.environ, **home.environment(), "HARBOR_ACP_REQUESTED_MODEL": "acme/mock-model"},
        )
        async with asyncio.timeout(12 * WAIT_SECONDS):
            assert await process.wait() == 0, (logs / "acp-summary.json").read_text()
        assert [request["model"] for request in model.requests] == ["mock-model"] * 2
    summary = json.loads((logs / "acp-summary.json").read_text())
    assert summary["prompt_response"]["stopReason"] == "end_turn"
    assert (summary["set_model_mechanism"], summary["resolved_session_model_id"]) == ("session_config_option", "mock-model")
    assert summary["latest_usage_update"]["used"] == 12
    assert "error" not in summary
    assert (work / "made.txt").exists()


def harbor_runner() -> Path:
    folder = cache_folder() / HARBOR.replace("==", "-")
    found = folder / "harbor" / "agents" / "installed" / "acp_runner.py"
    if not found.exists():
        python = python_with("pip==26.2")
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python", "--target", folder, HARBOR]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return found


@pytest.mark.slow
async def test_inspects_agent_finishes_a_prompt(tmp_path: Path) -> None:
    folder, work, home = tmp_path / "project", tmp_path / "work", tmp_path / "home"
    for each in (folder, work, home):
        each.mkdir()
    (folder / "understudy_agent.py").write_text(agent_file())
    async with ScriptedModel(SCRIPT) as model:
        port = int(model.url.rpartition(":")[2].partition("/")[0])
        task = {
            "folder": str(folder),
            "cwd": str(work),
            "home": str(home),
            "port": port,
            "command": [sys.executable, "-m", "understudy", "acp"],
            "env": {"PATH": os.environ["PATH"], "HOME": str(home)},
            "seconds": 10 * WAIT_SECONDS,
        }
        script = Path(__file__).parent / "inspect_here.py"
        seen = await run_client([python_with(*INSPECT), script, json.dumps(task)], env={"PYTHONPATH": ""})
        assert seen == {"stop": "end_turn"}
        assert [request["model"] for request in model.requests] == ["model", "model"]
        assert "Be brief." in json.dumps(model.requests[0])
    assert (work / "made.txt").exists()
