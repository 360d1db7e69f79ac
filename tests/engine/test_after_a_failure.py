"""After a write that failed, or a claim that was lost, a server sees what other processes do: nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.scenes import text_of, thread_of
from tests.e2e.talking import Stream
from tests.support.failing_log import FailingLog
from tests.support.losing_log import LosingLog
from tests.support.server_here import ServerHere
from understudy.config.home import state_dir
from understudy.testing import HOLD, Answer, McpProcess, ReceivedRequest, ScriptedModel, deltas, say


def _answer(request: ReceivedRequest) -> Answer:
    prompt = str(request.body["messages"][-1]["content"])
    match prompt:
        case "is lost":
            return deltas(["words ", 3600.0])
        case "goes on":
            return deltas(["half ", HOLD, "whole"])
        case _:
            return say(prompt)


@asynccontextmanager
async def one_that_has_failed(model: ScriptedModel, folder: Path, how: str) -> AsyncGenerator[tuple[ServerHere, str]]:
    """A server here, and a conversation of which it could not write a turn."""
    logs: list[FailingLog | LosingLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> FailingLog | LosingLog:
        kind = LosingLog if how == "a lost claim" else FailingLog
        logs.append(LosingLog(state_dir(home), loop) if kind is LosingLog else FailingLog(state_dir(home), loop, 10**9))
        return logs[0]

    async with ServerHere(model.url, cwd=folder, home=folder / "home", open_log=open_log) as here:
        thread = thread_of(await here.call_tool("codex", prompt="first"))
        log = logs[0]
        if isinstance(log, FailingLog):
            log.fail_next()
        call = here.call_tool("codex-reply", threadId=thread, prompt="is lost")
        if isinstance(log, LosingLog):
            await here.event("agent_message_delta", call)
            log.lose(thread)
        assert (await call)["isError"] is True
        yield here, thread


@pytest.mark.parametrize("how", ["a failed write", "a lost claim"])
async def test_a_call_that_joins_a_turn_of_another_process_is_answered(tmp_path: Path, how: str) -> None:
    async with (
        ScriptedModel(_answer) as model,
        one_that_has_failed(model, tmp_path, how) as (here, thread),
        McpProcess(model.url, cwd=tmp_path, home=tmp_path / "home") as there,
    ):
        running = there.call_tool("codex-reply", threadId=thread, prompt="goes on")
        await there.event("agent_message_delta", running)
        joined = here.call_tool("codex-reply", threadId=thread, prompt="joins")
        watched = Stream(there, thread, after=0)
        await there.wait_for_frame(lambda _: "joins" in str(watched.messages()), "the letter, read", watched.began)
        model.release()
        assert text_of(await running) == text_of(await joined) == "joins"


@pytest.mark.parametrize("how", ["a failed write", "a lost claim"])
async def test_a_stream_shows_what_another_process_writes_then(tmp_path: Path, how: str) -> None:
    async with (
        ScriptedModel(_answer) as model,
        one_that_has_failed(model, tmp_path, how) as (here, thread),
    ):
        stream = Stream(here, thread, after=0)
        await stream.snapshot()
        async with McpProcess(model.url, cwd=tmp_path, home=tmp_path / "home") as there:
            for word in ("two", "three"):
                assert text_of(await there.call_tool("codex-reply", threadId=thread, prompt=word)) == word
        await stream.until("agent_message", 3)
        said = [message["message"] for message in stream.messages() if message["type"] == "agent_message"]
        assert said[-2:] == ["two", "three"]
