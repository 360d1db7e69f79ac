"""A server that is stopped for longer than its limits, as a machine under load or a suspended container has it.

What came in time counts, although it is read only afterwards.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from understudy.testing import HOLD, McpProcess, ScriptedModel, deltas, text_of

IDLE_SECONDS = 2.0
LONGER = 2 * IDLE_SECONDS


@asynccontextmanager
async def stopped(client: McpProcess) -> AsyncGenerator[None]:
    """For longer than any limit of these tests, counted from the end of the block."""
    os.kill(client.process.pid, signal.SIGSTOP)
    try:
        yield
        await asyncio.sleep(LONGER)
    finally:
        os.kill(client.process.pid, signal.SIGCONT)


@pytest.mark.slow
async def test_what_the_model_said_meanwhile_is_no_silence(tmp_path: Path) -> None:
    config = {"model_providers.mock.stream_idle_timeout_ms": int(IDLE_SECONDS * 1000)}
    async with ScriptedModel([deltas(["a", HOLD, "b"])]) as model, McpProcess(model, cwd=tmp_path, config=config) as client:
        going = client.codex("Hello")
        await client.event("agent_message_delta", going)
        async with stopped(client):
            model.release()
            assert await model.outcome(1) == "answered"
        assert text_of(await going) == "ab"
        assert len(model.received) == 1
