"""A client that listens for its turn only some time after it has read the answer to `turn/start`, as OpenAI's Python SDK may."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.app_client import AppClient
from understudy.servers.app_server.thread_viewer import MOMENT
from understudy.testing import CodexHome, ScriptedModel, say

SDK = {"name": "codex_python_sdk", "title": "Codex Python SDK", "version": "0.163.0"}


async def seconds_until_the_end(client: AppClient, thread: str) -> float:
    """From the answer to `turn/start` to `turn/completed`, as the client reads them."""
    loop = asyncio.get_running_loop()
    turn: Any = (await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "hi"}]))["turn"]
    answered = loop.time()
    assert not any(ends(message, turn["id"]) for message in client.messages)
    await client.until(lambda message: ends(message, turn["id"]), "the end")
    return loop.time() - answered


def ends(message: Any, turn: str) -> bool:
    return message.get("method") == "turn/completed" and message["params"]["turn"]["id"] == turn


@pytest.mark.parametrize("turns", [3])
async def test_the_end_of_a_short_turn_leaves_it_the_time_to_listen(tmp_path: Path, turns: int) -> None:
    async with ScriptedModel([say("hello")] * turns) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with AppClient(home.path, tmp_path, greets=False) as client:
            await client.call("initialize", clientInfo=SDK)
            thread = (await client.call("thread/start"))["thread"]["id"]
            for _ in range(turns):
                assert await seconds_until_the_end(client, thread) > MOMENT / 2
            methods = [message.get("method") for message in client.messages if str(message.get("method")).startswith("turn/")]
            texts = [str(message) for message in client.messages]
    assert methods == ["turn/started", "turn/completed"] * turns
    idle = next(at for at, text in enumerate(texts) if "'type': 'idle'" in text and "status/changed" in text)
    assert idle < next(at for at, text in enumerate(texts) if "turn/completed" in text), "held back together, in their order"
