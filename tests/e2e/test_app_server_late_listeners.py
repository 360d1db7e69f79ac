"""A client that listens for its turn only some time after it has read the answer to `turn/start`, as OpenAI's Python SDK may."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.app_client import AppClient
from understudy.servers.app_server.turn_shape import MOMENT
from understudy.testing import HOLD, CodexHome, ScriptedModel, deltas, say

SDK = {"name": "codex_python_sdk", "title": "Codex Python SDK", "version": "0.163.0"}
OTHER = {"name": "another", "version": "1"}


async def thread_of(client: AppClient, name: dict[str, str] = SDK) -> str:
    await client.call("initialize", clientInfo=name)
    return (await client.call("thread/start"))["thread"]["id"]


async def turn_of(client: AppClient, thread: str, text: str = "hi") -> str:
    return (await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": text}]))["turn"]["id"]


async def seconds_until_the_end(client: AppClient, thread: str) -> float:
    """From the answer to `turn/start` to `turn/completed`, as the client reads them."""
    loop = asyncio.get_running_loop()
    turn = await turn_of(client, thread)
    answered = loop.time()
    assert not any(ends(message, turn) for message in client.messages)
    await client.until(lambda message: ends(message, turn), "the end")
    return loop.time() - answered


def ends(message: Any, turn: str) -> bool:
    return message.get("method") == "turn/completed" and message["params"]["turn"]["id"] == turn


def number_of_ends(client: AppClient, turn: str) -> int:
    return sum(ends(message, turn) for message in client.messages)


@pytest.mark.parametrize("turns", [3])
async def test_the_end_of_a_short_turn_leaves_it_the_time_to_listen(tmp_path: Path, turns: int) -> None:
    async with ScriptedModel([say("hello")] * turns) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with AppClient(home.path, tmp_path, greets=False) as client:
            thread = await thread_of(client)
            for _ in range(turns):
                assert await seconds_until_the_end(client, thread) > MOMENT / 2
            texts = [str(message) for message in client.messages]
    idle = next(at for at, text in enumerate(texts) if "'type': 'idle'" in text and "status/changed" in text)
    assert idle < next(at for at, text in enumerate(texts) if "turn/completed" in text), "held back together, in their order"


@pytest.mark.slow
async def test_whoever_listens_even_later_is_told_of_the_end_again_with_what_the_turn_brought(tmp_path: Path) -> None:
    """The SDK drops an end that it does not listen for yet, and all that came before: this client does the same, twice."""
    async with ScriptedModel([say("hello", usage=(10, 1))]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with AppClient(home.path, tmp_path, greets=False) as client:
            turn = await turn_of(client, await thread_of(client))
            for times in (1, 2):
                await client.until(lambda _, times=times: number_of_ends(client, turn) == times, f"end number {times}")
            dropped = len(client.messages)
            await client.until(lambda _: number_of_ends(client, turn) == 3, "the end that is heard")
            heard = client.messages[dropped:]
    assert [message["method"] for message in heard] == [
        "item/completed",
        "item/completed",
        "thread/tokenUsage/updated",
        "turn/completed",
    ]
    assert [message["params"]["item"]["type"] for message in heard[:2]] == ["userMessage", "agentMessage"]
    assert heard[1]["params"]["item"]["text"] == "hello"


async def test_the_end_of_a_turn_that_waited_for_another_is_told_again_too(tmp_path: Path) -> None:
    async with ScriptedModel([deltas(["fir", HOLD, "st"]), say("second")]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with AppClient(home.path, tmp_path, greets=False) as client:
            thread = await thread_of(client)
            await turn_of(client, thread)
            waiting = await turn_of(client, thread)
            model.release()
            await client.until(lambda _: number_of_ends(client, waiting) == 2, "the second telling")


async def test_other_clients_are_told_of_an_end_at_once_and_only_once(tmp_path: Path) -> None:
    """Two clients have the same thread loaded: by the time one of them is told again, the other would have been."""
    async with ScriptedModel([say("hello")]) as model:
        home = CodexHome(tmp_path / "user" / ".codex", model)
        async with AppClient(home.path, tmp_path, greets=False) as late, AppClient(home.path, tmp_path, greets=False) as other:
            thread = await thread_of(late)
            await other.call("initialize", clientInfo=OTHER)
            await other.call("thread/resume", threadId=thread)
            turn = await turn_of(late, thread)
            await late.until(lambda _: number_of_ends(late, turn) == 2, "the second telling")
            await other.call("thread/loaded/list")
            assert number_of_ends(other, turn) == 1
