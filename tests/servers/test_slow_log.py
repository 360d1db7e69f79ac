"""Handlers that have to wait for a log on another machine: they hold up nobody, and change no order that a client can see."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tests.support.connections import Connection, EngineHere, Json
from tests.support.obliging_model import ObligingModel
from tests.support.slow_log import SlowLog
from understudy.config.home import state_dir

TOOLS_ABOUT_ONE: dict[str, Json] = {
    "codex-reply": {"prompt": "2"},
    "conversationSendMessage": {"content": [{"type": "text", "text": "2"}]},
    "conversationStream": {},
    "conversationInterrupt": {},
    "conversationApprove": {"call_id": "call1", "decision": "denied"},
    "conversationsList": {},
}


@asynccontextmanager
async def scene(folder: Path) -> AsyncGenerator[tuple[EngineHere, SlowLog]]:
    logs: list[SlowLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> SlowLog:
        logs.append(SlowLog(state_dir(home), loop))
        return logs[-1]

    async with ObligingModel() as model, EngineHere(folder, model.url, open_log=open_log) as here:
        here.engine.log  # noqa: B018  # opened now, so that the test can slow it down
        try:
            yield here, logs[0]
        finally:
            logs[0].go_on()
            logs[0].steps.clear()


async def create(connection: Connection, folder: Path) -> str:
    return (await connection.ask("conversationCreate", cwd=str(folder)))["structuredContent"]["conversation_id"]


@pytest.mark.parametrize("tool", TOOLS_ABOUT_ONE)
async def test_a_log_that_stalls_does_not_hold_up_a_ping(tmp_path: Path, tool: str) -> None:
    async with scene(tmp_path) as (here, log):
        connection = here.connect()
        conversation = await create(connection, tmp_path)
        about: Json = {"threadId": conversation} if tool == "codex-reply" else {"conversation_id": conversation}
        log.stall()
        slow = connection.call(tool, **TOOLS_ABOUT_ONE[tool], **({} if tool == "conversationsList" else about))
        assert connection.sink.answers_to(slow) == []
        for _ in range(3):
            ping = connection.request("ping")
            assert len(connection.sink.answers_to(ping)) == 1
        log.go_on()
        await connection.answer(slow)
        assert len(connection.sink.answers_to(slow)) == 1


@pytest.mark.parametrize("seed", range(8))
async def test_messages_are_taken_in_the_order_sent_however_long_each_read_takes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    count = 6
    async with scene(tmp_path) as (here, log):
        connection = here.connect()
        conversation = await create(connection, tmp_path)
        connection.call("conversationStream", conversation_id=conversation, after=0)
        log.steps = deque(random.choice((0, 0, 1, 7, 30)) for _ in range(200))
        about: Json = {"conversation_id": conversation}
        texts = [str(number) for number in range(count)]
        sent = [connection.call("conversationSendMessage", content=[{"type": "text", "text": text}], **about) for text in texts]
        for request_id in sent:
            assert (await connection.answer(request_id))["result"]["structuredContent"] == {"status": "ok"}

        def shown() -> list[str] | None:
            messages = [message["params"]["msg"] for message in connection.sink.messages if message.get("method") == "user_message"]
            return [message["message"] for message in messages] if len(messages) == count else None

        assert await connection.sink.watched.until(shown, "all messages") == texts


@pytest.mark.parametrize("seed", range(8))
async def test_the_answer_of_a_call_comes_after_its_events_however_long_each_read_takes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    async with scene(tmp_path) as (here, log):
        clients = [here.connect(), here.connect()]
        log.steps = deque(random.choice((0, 1, 5, 20)) for _ in range(400))
        calls = [(one, one.call("codex", prompt="1", cwd=str(tmp_path))) for one in clients for _ in range(2)]
        for one, request_id in calls:
            result = (await one.answer(request_id))["result"]
            assert result["structuredContent"]["content"] == "ok: 1"
            own = [message for related, message in one.sink.kept if related == request_id]
            assert own[-1]["id"] == request_id, "the answer is the last thing that is said of a call"
            kinds = [message["params"]["msg"]["type"] for message in own if message.get("method") == "codex/event"]
            assert (kinds[0], kinds[-1]) == ("session_configured", "task_complete")
