"""`understudy backup` while the server works: the copy is whole, proves itself, and has all that was acknowledged before."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.http_server import HttpClient, HttpServer
from tests.support.obliging_model import ObligingModel
from understudy.testing.waiting import WAIT_SECONDS


async def understudy(home: Path, *words: str) -> tuple[int | None, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "CODEX_HOME": str(home)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "understudy", *words, env=env, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    return process.returncode, out.decode()


async def talk(server: HttpServer, number: int, known: set[str], over: asyncio.Event) -> int:
    """One client that goes on talking; the ids of what was answered are in `known`."""
    client = HttpClient(server.port, server.token)
    await client.initialize()
    turns = 0
    while not over.is_set():
        made = await client.result("codex", {"prompt": f"hello {number} {os.urandom(20_000).hex()}"})
        known.add(made["structuredContent"]["threadId"])
        turns += 1
    return turns


@pytest.mark.slow
async def test_a_copy_made_under_load_is_whole_and_can_be_verified(tmp_path: Path) -> None:
    async with ObligingModel() as model, HttpServer(tmp_path, model) as server:
        known: set[str] = set()
        over = asyncio.Event()
        talking = [asyncio.create_task(talk(server, number, known, over)) for number in range(4)]
        async with asyncio.timeout(WAIT_SECONDS):
            while len(known) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        acknowledged = set(known)
        copy = tmp_path / "copy.db"
        code, said = await understudy(server.home.path, "backup", str(copy))
        assert not any(task.done() for task in talking), "the server was asked all the time"
        over.set()
        turns = sum(await asyncio.gather(*talking))
        assert (code, "conversation" in said) == (0, True), said
        assert turns == len(known)
    home = tmp_path / "restored" / ".codex"
    state = home / "understudy"
    state.mkdir(parents=True, mode=0o700)
    shutil.copy(copy, state / "conversations.db")
    shutil.copy(server.home.path / "understudy" / "audit.key", state / "audit.key")
    code, said = await understudy(home, "verify")
    assert code == 0, said
    code, said = await understudy(home, "conversations", "--json", "--limit", "10000")
    assert code == 0, said
    assert all(conversation in said for conversation in acknowledged)
