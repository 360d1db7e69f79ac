"""Logins, sessions, links and cancelled tasks that end at one server of a database end at all of them: with the same keys, each
would go on to take them for valid.
"""

import asyncio
import logging
from functools import partial

from understudy.errors import StoreError
from understudy.servers.http.answers import Refusal
from understudy.servers.serve.app import App
from understudy.store.postgres.ends import EndedName, Ends

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
LAST_WORDS_SECONDS = 2.0
LOGIN, SESSION, TASK, LINK = "login", "session", "task", "link"


class EndedForAll:
    def __init__(self, ends: Ends, app: App) -> None:
        self._ends = ends
        self._app = app
        self._lists = lists = {LOGIN: app.page.browsers.logins.ended, SESSION: app.legacy.ids.ended, TASK: app.modern.left_tasks}
        self._untold: list[EndedName] = []  # others have yet to be told
        self._task: asyncio.Task[None] | None = None
        for kind, ended in lists.items():
            ended.when_added = partial(self._added, kind)
        app.page.use_for_all = self._use_link

    async def begin(self) -> None:
        try:
            await self._learn()
        except StoreError as error:
            logger.warning("it is not known yet what has ended at other servers: %s", error)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="what has ended elsewhere")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._tell()
        except (StoreError, TimeoutError) as error:
            logger.warning("other servers have not been told of all that has ended: %s", error)

    def _added(self, kind: str, name: str, created: int) -> None:
        self._untold.append(EndedName(kind, name, created))

    async def _use_link(self, name: str) -> bool:
        """Whether the link is used for the first time."""
        try:
            return await self._ends.end(EndedName(LINK, name, 0))
        except StoreError as error:
            raise Refusal(503, f"it cannot be known whether the link was used before: {error}") from None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._tell()
                await self._learn()
            except StoreError as error:
                logger.info("what has ended is compared with other servers later: %s", error)

    async def _tell(self) -> None:
        while self._untold:
            await self._ends.end(self._untold[0])
            del self._untold[0]

    async def _learn(self) -> None:
        for ended in await self._ends.new():
            known = self._lists.get(ended.kind)
            if known is None or ended.name in known:
                continue
            known.learn(ended.name, ended.made)
            if ended.kind == LOGIN:
                self._app.rest.logged_out(ended.name)
