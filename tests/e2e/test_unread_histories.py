"""Clients on a pipe that ask for long histories and do not read: few of them are in memory at once, and all are answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.test_large_streams import is_stored
from tests.support.acp_client import AcpClient
from tests.support.app_client import AppClient, Json, LineClient
from understudy.testing import CodexHome, ScriptedModel, say
from understudy.testing.waiting import WAIT_SECONDS

TEXT = "word " * 800_000  # 4 MB
MANY = 40
MOST_MEGABYTES = 150


def peak_megabytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


@dataclass(frozen=True)
class Wish:
    """Requests for a long history, and one behind them that deletes another conversation."""

    method: str
    params: Json
    delete: str
    another: Json


async def ask_unread(client: LineClient, home: Path, wish: Wish) -> None:
    """Once the other conversation is gone, all requests before have been taken up."""
    with client.not_reading():
        asked = [client.ask(wish.method, **wish.params) for _ in range(MANY)]
        asked.append(client.ask(wish.delete, **wish.another))
        async with asyncio.timeout(WAIT_SECONDS):
            while is_stored(home, next(iter(wish.another.values()))):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    for number in asked:
        await client.answer(number)
    assert peak_megabytes(client.pid) < MOST_MEGABYTES


@pytest.mark.slow
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_an_editor_that_opens_a_long_session_many_times_and_reads_nothing(tmp_path: Path, method: str) -> None:
    async with ScriptedModel([say(TEXT)]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model).path
        async with AcpClient(home, tmp_path) as client:
            session, another = await client.new_session(tmp_path), await client.new_session(tmp_path)
            assert await client.prompt(session, "go") == "end_turn"
            params: Json = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            await ask_unread(client, home, Wish(method, params, "session/delete", {"sessionId": another}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("thread/resume", {}),
        ("thread/read", {"includeTurns": True}),
        ("thread/turns/list", {}),
        ("thread/items/list", {}),
    ],
)
async def test_an_app_that_asks_for_a_long_thread_many_times_and_reads_nothing(tmp_path: Path, method: str, more: Json) -> None:
    async with ScriptedModel([say(TEXT)]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model).path
        async with AppClient(home, tmp_path) as client:
            thread, another = [(await client.call("thread/start"))["thread"]["id"] for _ in range(2)]
            turn = await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "go"}])
            await client.turn_over(thread, turn["turn"]["id"])
            wish = Wish(method, {"threadId": thread, **more}, "thread/delete", {"threadId": another})
            await ask_unread(client, home, wish)
