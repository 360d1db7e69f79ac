"""The tests on docs/testing.md and docs/record-and-replay.md pass in a project of somebody else: warnings are errors there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks
from understudy.testing import McpProcess, ScriptedModel, call, provider_settings, say, thread_of
from understudy.testing.waiting import WAIT_SECONDS

SETTINGS = "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"


def run_pytest(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'made'}", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=30 * WAIT_SECONDS, check=False)


@pytest.mark.slow
def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    found = [block for block in blocks("python") if block.page == ROOT / "docs" / "testing.md"]
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for number, block in enumerate(found):
        name = "conftest.py" if "pytest_plugins" in block.text else f"test_{number}.py"
        (tmp_path / name).write_text(block.text)
    done = run_pytest(tmp_path)
    written = sum(block.text.count("async def test_") for block in found)
    assert f"{written} passed" in done.stdout, done.stdout + done.stderr
    assert written > 8


@pytest.mark.slow
async def test_the_test_with_a_recording_passes(tmp_path: Path) -> None:
    [block] = [block for block in blocks("python") if block.page == ROOT / "docs" / "record-and-replay.md"]
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["understudy.testing.fixtures"]\n')
    (tmp_path / "test_page.py").write_text(block.text)
    script = [call("shell", command=["touch", "made.txt"]), say("It is there."), say("You are welcome.")]
    async with ScriptedModel(script) as model:
        settings = {"approval_policy": "never", "sandbox_mode": "workspace-write"}
        config = {**provider_settings(model), **settings, "understudy.record": str(tmp_path / "session.jsonl")}
        async with McpProcess(config=config) as server:
            first = await server.codex("Make a file")
            await server.reply(thread_of(first), "Thank you")
    done = run_pytest(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
