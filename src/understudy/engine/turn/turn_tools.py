"""The tools that a turn offers the model: our own and those of other servers, which may come, go and change while it runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.engine.setup.turn_setup import TurnSetup
from understudy.engine.turn.other_servers import NOT_INSTALLED, ConversationServers
from understudy.errors import ServersMissing
from understudy.models.model import ToolSpec
from understudy.protocol.records import Record, ServersChecked
from understudy.tools.mcp.tools import OtherServersTool, resource_tool
from understudy.tools.tool import Tool

if TYPE_CHECKING:
    from understudy.tools.mcp.servers import Servers


class TurnTools:
    def __init__(self, setup: TurnSetup, configured: ConversationServers, record: Callable[[Record], None]) -> None:
        self.servers: Servers | None = None
        self._setup = setup
        self._configured = configured
        self._record = record
        self._told: ServersChecked | None = None
        self._refreshes = 0

    @property
    def offered(self) -> tuple[ToolSpec, ...]:
        return self._setup.offered if self.servers is None else (*self._setup.offered, *self.servers.offered)

    async def begin(self) -> None:
        """Wait for the servers as long as configured. Raises `ServersMissing` if a required one fails."""
        configured = self._configured
        servers = self.servers = await configured.open()
        if servers is None:
            self._tell(ServersChecked((), {server.name: NOT_INSTALLED for server in configured.configured}))
            if any(server.required for server in configured.configured):
                raise ServersMissing(NOT_INSTALLED)
            return
        problem = await servers.wait(configured.wait_seconds)
        servers.update()
        self._tell(servers.checked())
        if problem is not None:
            raise ServersMissing(problem)

    async def before_request(self) -> bool:
        """True if the model is offered other tools from here on: the provider's cache then begins anew."""
        from understudy.tools.mcp.reading import MOST_REFRESHES

        servers = self.servers
        if servers is None or self._refreshes >= MOST_REFRESHES:
            return False
        if any(server.changed for server in servers.servers.values()):
            await servers.refresh()
        if not servers.update():
            return False
        self._refreshes += 1
        self._tell(servers.checked())
        return True

    def find(self, name: str) -> Tool | None:
        """Our own come first: no server can replace one."""
        own = self._setup.find_tool(name)
        if own is not None or self.servers is None:
            return own
        found = self.servers.find(name)
        return OtherServersTool(found) if found is not None else resource_tool(name)

    def rest(self) -> None:
        self._configured.rest()

    def _tell(self, checked: ServersChecked) -> None:
        """Record the servers once, and again if they change; servers that are missing in every turn are recorded for its report."""
        before = self._told if self.servers is None else self.servers.told
        if checked == before and (not checked.missing or self._told is not None):
            return
        self._told = checked
        if self.servers is not None:
            self.servers.told = checked
        self._record(checked)
