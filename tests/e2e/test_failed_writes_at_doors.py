"""A write that fails at the doors of editors: the request is told the true reason, and the next one works as it is."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.acp_client import AcpClient
from tests.support.app_client import AppClient, LineClient, RpcFailed
from tests.support.obliging_model import ObligingModel
from understudy.testing import CodexHome


@contextmanager
def failing_writes(client: LineClient) -> Generator[None]:
    """No file of the server can be written to."""
    before = resource.prlimit(client.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(client.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(client.pid, resource.RLIMIT_FSIZE, before)


async def test_a_prompt_of_an_editor_works_after_one_that_could_not_be_recorded(tmp_path: Path) -> None:
    model = ObligingModel()
    async with model.serving():
        home = CodexHome(tmp_path / "user" / ".codex", model).path
        async with AcpClient(home, tmp_path) as client:
            session = await client.new_session(tmp_path)
            assert await client.prompt(session, "one") == "end_turn"
            with failing_writes(client), pytest.raises(RpcFailed, match="conversation store"):
                await client.prompt(session, "lost")
            asked = [client.ask_prompt(session, text) for text in ("two", "three")]  # only one of them opens it again
            assert [(await client.answer(number))["stopReason"] for number in asked] == ["end_turn", "end_turn"]
            assert await client.prompt(session, "four") == "end_turn"
            assert client.said() == "ok: oneok: twook: threeok: four", "nothing twice, and nothing of what was not recorded"


@pytest.mark.slow
async def test_a_turn_of_a_thread_works_after_one_that_could_not_be_recorded(tmp_path: Path) -> None:
    model = ObligingModel()
    async with model.serving():
        home = CodexHome(tmp_path / "user" / ".codex", model).path
        async with AppClient(home, tmp_path) as client:
            thread = (await client.call("thread/start"))["thread"]["id"]
            with failing_writes(client), pytest.raises(RpcFailed, match="conversation store"):
                await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": "lost"}])
            for text in ("two", "three"):
                turn = await client.call("turn/start", threadId=thread, input=[{"type": "text", "text": text}])

                def is_over(message: dict[str, Any], number: str = turn["turn"]["id"]) -> bool:
                    return message.get("method") == "turn/completed" and message["params"]["turn"]["id"] == number

                done = await client.until(is_over, "the end of the turn")
                assert done["params"]["turn"]["status"] == "completed"
            completed = [message for message in client.messages if message.get("method") == "turn/completed"]
            assert len(completed) == 2, "each is told once"
