"""Where the system allows few threads, every program ends with a word of that, or works: none is aborted, and nothing is broken."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from understudy.testing import CodexHome, McpProcess, ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="shows it with a user of its own: run the tests as root for it")

LACK = "no more processes or threads can be started; raise the limit (`ulimit -u`), or have fewer turns at once"
SERVES = b"understudy serves MCP at "
MANY = 1000
FEW_THREADS = Path(__file__).parents[1] / "support" / "few_threads.py"


def limited(threads: int, *words: str) -> tuple[str, ...]:
    return (sys.executable, str(FEW_THREADS), str(threads), sys.executable, "-m", "understudy", *words)


async def serve(folder: Path, threads: int, *args: str) -> tuple[int, str, bool]:
    """Its exit code, what it said, and whether it served before it was told to end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *limited(threads, "serve", "--port", "0", *args),
        cwd=folder,
        env=CodexHome(folder / "user" / ".codex").environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
    )
    assert process.stdout is not None
    first = await asyncio.wait_for(process.stdout.readline(), WAIT_SECONDS)
    if served := first.startswith(SERVES):
        process.send_signal(signal.SIGTERM)
    _, said = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    return process.returncode or 0, said.decode(), served


async def test_a_server_that_gets_no_thread_says_so_and_leaves_a_whole_store(tmp_path: Path) -> None:
    assert await serve(tmp_path, 1) == (1, f"understudy: {LACK}\n", False)
    assert not (tmp_path / "user" / ".codex" / "understudy" / "kept").exists()
    code, said, served = await serve(tmp_path, 2)
    assert (code, served) == (0, True), said
    assert "WARNING" not in said


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("threads", range(1, 7))
async def test_a_server_that_gets_few_threads_serves_or_says_why_not(tmp_path: Path, threads: int, host: str) -> None:
    for allowed in (threads, threads, MANY):
        code, said, served = await serve(tmp_path, allowed, "--host", host)
        assert code == (0 if served else 1), said
        assert served or said == f"understudy: {LACK}\n"
        assert "WARNING" not in said
    assert served


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("threads", range(1, 7))
async def test_calls_are_answered_whatever_threads_there_are(tmp_path: Path, threads: int, host: str) -> None:
    async with ScriptedModel(lambda _: say("done")) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model.url.replace("127.0.0.1", host))
        async with McpProcess(cwd=tmp_path, home=home, command=limited(threads, "mcp-server")) as client:
            for _ in range(2):
                answer = str(await client.codex("go"))
                assert "done" in answer or LACK in answer
        assert client.process.returncode == 0
        assert "Traceback" not in client.stderr
