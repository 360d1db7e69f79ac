"""Other MCP servers of the conversations here: opened for the first turn that wants them, and kept between turns.

They belong to this process and end with it. Servers of an idle conversation end after a while, or when too many are idle.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from understudy.config.mcp_servers import McpServer
from understudy.errors import how_to_add
from understudy.protocol.ids import ConversationId
from understudy.tools.host import RunsCommands, ToolSettings

if TYPE_CHECKING:
    from understudy.tools.mcp.servers import Servers

RESTING_SECONDS = 1800.0
MOST_RESTING = 16  # idle conversations whose servers are kept
NOT_INSTALLED = f"tools of MCP servers need the package `mcp`, which is not installed: {how_to_add('mcp')}"


class WantedServers(msgspec.Struct, frozen=True):
    """What a conversation's servers depend on. If any of it changes, they are restarted."""

    servers: tuple[McpServer, ...]
    cwd: str
    containment: object
    taken: frozenset[str]  # names of our own tools


class _Opened:
    def __init__(self, wanted: WantedServers, servers: "Servers") -> None:
        self.wanted = wanted
        self.servers = servers
        self.resting: asyncio.TimerHandle | None = None


class ConversationServers:
    """How one conversation's turns reach its servers."""

    def __init__(
        self,
        pool: "OtherServers",
        conversation_id: ConversationId,
        servers: tuple[McpServer, ...],
        settings: Callable[[], ToolSettings],
        taken: frozenset[str],
        wait_seconds: float,
    ) -> None:
        self._pool = pool
        self._conversation_id = conversation_id
        self._settings = settings
        self._taken = taken
        self.configured = servers
        self.wait_seconds = wait_seconds

    async def open(self) -> "Servers | None":
        """Servers that are starting or have started. None if they cannot be used at all."""
        settings = self._settings()
        wanted = WantedServers(self.configured, settings.cwd, settings.containment, self._taken)
        return await self._pool.open(self._conversation_id, wanted)

    def rest(self) -> None:
        """The turn is over."""
        self._pool.rest(self._conversation_id)


class OtherServers:
    def __init__(self, sandbox: RunsCommands, env: Mapping[str, str], state_dir: Path) -> None:
        self._sandbox = sandbox
        self._env = env
        self._state_dir = state_dir
        self._opened: OrderedDict[ConversationId, _Opened] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, conversation_id: ConversationId, wanted: WantedServers) -> "Servers | None":
        known = self._opened.get(conversation_id)
        if known is not None and known.wanted != wanted:
            self.end(conversation_id)
            known = None
        if known is None:
            try:
                # takes half a second, during which others are served
                await asyncio.to_thread(import_module, "understudy.tools.mcp.servers")
            except ImportError:
                return None
            known = self._opened[conversation_id] = _Opened(wanted, self._make(wanted))
        if known.resting is not None:
            known.resting.cancel()
            known.resting = None
        self._opened.move_to_end(conversation_id)
        known.servers.begin()
        return known.servers

    def _make(self, wanted: WantedServers) -> "Servers":
        from understudy.sandbox.spec import Containment
        from understudy.tools.mcp.servers import open_servers

        contained = wanted.containment
        containment = contained if isinstance(contained, Containment) else None
        if containment is not None and containment.private_tmp and any(server.sandboxed for server in wanted.servers):
            os.makedirs(containment.private_tmp, mode=0o700, exist_ok=True)  # as a first command would
        return open_servers(wanted.servers, self._sandbox, wanted.cwd, self._env, containment, wanted.taken, self._state_dir)

    def rest(self, conversation_id: ConversationId) -> None:
        opened = self._opened.get(conversation_id)
        if opened is None:
            return
        if opened.resting is not None:
            opened.resting.cancel()
        loop = asyncio.get_running_loop()
        opened.resting = loop.call_later(RESTING_SECONDS, self.end, conversation_id)
        resting = [each for each, opened in self._opened.items() if opened.resting is not None]
        for each in resting[: len(resting) - MOST_RESTING] if len(resting) > MOST_RESTING else ():
            self.end(each)

    def end(self, conversation_id: ConversationId) -> None:
        """End its servers without waiting for that."""
        opened = self._opened.pop(conversation_id, None)
        if opened is None:
            return
        if opened.resting is not None:
            opened.resting.cancel()
        closing = asyncio.create_task(opened.servers.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for conversation_id in tuple(self._opened):
            self.end(conversation_id)
        if self._closing:
            await asyncio.wait(self._closing)
