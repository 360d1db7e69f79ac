"""Asks the provider, in the background, for a model's window that neither the configuration nor the table knows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from understudy.errors import AgentError, report_bug

logger = logging.getLogger(__name__)

SECONDS = 10.0  # for the answer
AGAIN_SECONDS = 600.0  # a server may be restarted with another window


class ProviderWindow:
    """Shared by all conversations with one model of one provider."""

    def __init__(self, ask: Callable[[float], Awaitable[int | None]]) -> None:
        """`ask` gets a time limit in seconds."""
        self.tokens: int | None = None  # None: unknown, or not known yet
        self._ask = ask
        self._asked_at: float | None = None
        self._asking: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Ask, unless that was done recently."""
        now = asyncio.get_running_loop().time()
        if self._asked_at is None or now - self._asked_at >= AGAIN_SECONDS:
            self._asked_at = now
            self._asking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        try:
            found = await self._ask(SECONDS)
        except AgentError as error:
            logger.info("the provider does not say how much its model can read: %s", error)
        except Exception as error:
            report_bug(logger, error, "in asking a provider for the window of its model")
        else:
            self.tokens = found or self.tokens

    async def aclose(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
