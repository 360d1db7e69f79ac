"""What another process appends on another path of the conversation, shown here: all of it, also what comes while it is read."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tests.engine.viewers.test_following import Lines
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Entry, Noticed, Overrides
from understudy.store.sqlite.event_log import SqliteLog
from understudy.testing.waiting import WAIT_SECONDS


class InterruptedLog(SqliteLog):
    """The real store. What `meanwhile` does comes right before a conversation is read from its beginning; once."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def read(
        self, conversation_id: ConversationId, after: int = 0, limit: int | None = None, most_bytes: int | None = None
    ) -> Sequence[Entry]:
        if after == 0 and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return await super().read(conversation_id, after, limit, most_bytes)


async def test_what_is_appended_between_two_looks_is_shown(tmp_path: Path) -> None:
    logs: list[InterruptedLog] = []

    def open_log(home: Path, loop: asyncio.AbstractEventLoop) -> InterruptedLog:
        logs.append(InterruptedLog(state_dir(home), loop))
        return logs[-1]

    (tmp_path / "home").mkdir()
    settings = [("model", "m"), ("model_provider", "oss")]
    env = {**os.environ, "CODEX_HOME": str(tmp_path / "home")}
    here, there = (Engine(cli=settings, env=env, open_log=open_log) for _ in range(2))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            handle = await here.create(LOCAL, Overrides(cwd=str(tmp_path)))
            ours = handle._conversation  # pyright: ignore[reportPrivateUsage]  # whose records the test chooses
            ours.tail.append(Noticed("one"), Noticed("two"), turn="1")
            await ours.tail.committed()
            ours.claim.release()
            viewer = Lines()
            handle.follow(viewer).go_live()

            theirs = (await there.find(LOCAL, handle.id))._conversation  # pyright: ignore[reportPrivateUsage]
            await theirs.claim.take()
            theirs.tail.state = theirs.state.fork(await theirs.read(0), 2)

            async def append(word: str) -> None:
                theirs.tail.append(Noticed(word), turn="2")
                await theirs.tail.committed()

            await append("another path")
            logs[0].meanwhile = lambda: append("and more of it")
            await ours.claim.catch_up()
            await append("the end")
            await ours.claim.catch_up()
            assert viewer.take() == ["2 another path", "2 and more of it", "2 the end"]
            assert ours.tail.broadcast.published == ours.state.last_seq
    finally:
        for engine in (here, there):
            await engine.close()
