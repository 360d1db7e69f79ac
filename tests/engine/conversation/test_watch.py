"""Which conversations are looked at while nothing happens: those at rest only where the log says that others may have written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.e2e.scenes import answered
from tests.e2e.talking import Stream, create
from tests.support.around_log import AroundLog
from tests.support.server_here import ServerHere
from understudy.engine.conversation import watch
from understudy.protocol.ids import ConversationId
from understudy.store.log import Listener, Position
from understudy.testing import McpProcess, ScriptedModel, say
from understudy.testing.waiting import Watched


class DeafLog(AroundLog):
    """It tells nobody of changes, and knows how many conversations each look was about."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(folder, loop)
        self.looks: list[int] = []
        self.watched = Watched()

    async def positions(self, conversation_ids: Iterable[ConversationId]) -> dict[ConversationId, Position]:
        asked = list(conversation_ids)
        self.looks.append(len(asked))
        self.watched.change()
        return await self._log.positions(asked)

    def listen(self, conversation_id: ConversationId, told: Listener) -> Callable[[], None]:
        return lambda: None


async def test_conversations_at_rest_are_looked_at_only_where_others_may_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "UNTOLD_SECONDS", 0.01)
    monkeypatch.setattr(watch, "ALL_ROUNDS", 1_000_000)
    logs: list[DeafLog] = []

    def open_log(folder: Path, loop: asyncio.AbstractEventLoop) -> DeafLog:
        logs.append(DeafLog(folder, loop))
        return logs[0]

    home = tmp_path / "home"
    async with (
        ScriptedModel([say("1"), say("2"), say("elsewhere")]) as model,
        ServerHere(model.url, cwd=tmp_path, home=home, open_log=open_log) as here,
    ):
        both = [await create(here, prompt=word) for word in ("1", "2")]
        for conversation in both:
            await Stream(here, conversation).snapshot()
        log = logs[0]
        await log.watched.until(lambda: log.looks[-4:] == [1, 1, 1, 1] or None, "looks at one conversation, for all")
        stream = Stream(here, both[1])
        await stream.snapshot()
        async with McpProcess(model.url, cwd=tmp_path, home=home) as there:
            reply = await there.call_tool("codex-reply", threadId=both[1], prompt="3")
            assert reply == answered("elsewhere", both[1])
            await stream.until("task_complete")
