"""A test that fails is shown with the logs of its servers, also where several processes run the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.testing.waiting import WAIT_SECONDS

ROOT = Path(__file__).parent.parent
FAILING = """
import sys
from understudy.testing import LineProcess

PROGRAM = "import sys; print('why it was', file=sys.stderr, flush=True); print('up', flush=True); sys.stdin.read()"


class Stage:
    def __init__(self, server: LineProcess) -> None:
        self.server = server


Stage.__module__ = "tests.stage"


async def test_it_fails(tmp_path):
    async with LineProcess((sys.executable, "-c", PROGRAM), cwd=tmp_path, env={}) as server:
        assert await server.next_line() == "up"
        await uses(Stage(server))


async def uses(stage):
    del stage.unknown
"""


@pytest.mark.parametrize("spread", [("-p", "no:xdist"), ("-n", "1")], ids=["one process", "workers"])
def test_a_failure_is_shown_with_the_log_of_its_server(tmp_path: Path, spread: tuple[str, ...]) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        "pyproject.toml",
        "-p",
        "tests.conftest",
        "-o",
        f"cache_dir={tmp_path / 'cache'}",
        *spread,
    ]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'base'}", str(tmp_path / "test_failing.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "log of server (LineProcess)" in done.stdout
    assert "why it was" in done.stdout.split("log of server")[1]
