"""One of the user's servers, in one conversation: started, restarted after a crash, its tools listed, called."""

import asyncio
import logging
import time
from collections.abc import Callable, Container, Mapping
from typing import Any, cast

from understudy.config.mcp_servers import McpServer
from understudy.tools.mcp.reading import (
    MOST_LISTED,
    MOST_OFFERED,
    MOST_PAGES,
    MOST_STARTS,
    MOST_TOOLS,
    REFRESH_SECONDS,
    RESTART_WINDOW,
)
from understudy.tools.mcp.remote_tool import RemoteTool
from understudy.tools.mcp.schema import clean_description, clean_parameters, nothing_said
from understudy.tools.mcp.session import Lost, NoAnswerInTime, OtherServerSession, Progress, Refused, Way

logger = logging.getLogger(__name__)

LIST_CHANGED = "notifications/tools/list_changed"
QUESTION = "elicitation/create"
CHANGED = (
    "the server describes this tool otherwise than when it was offered, or has it no more, so it was not called. Look at the tools"
    " that are offered now"
)
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Server:
    """`on_question` is called when the server wants to ask the user something by itself, which is declined."""

    def __init__(
        self, settings: McpServer, make_way: Callable[[], Way], roots: tuple[str, ...], redact: Callable[[str], str]
    ) -> None:
        self.settings = settings
        self.name = settings.name
        self.tools: tuple[RemoteTool, ...] = ()
        self.error: str | None = settings.problem  # why it is not ready; None while it starts, and once it is ready
        self.has_resources = False
        self.changed = False  # the server said that its list of tools has changed
        self.redact = redact
        self.on_question: Callable[[str], None] | None = None
        self._make_way = make_way
        self._roots = roots
        self._session: OtherServerSession | None = None
        self._starting: asyncio.Task[None] | None = None
        self._starts: list[float] = []
        self._listed = False
        self._closed = False

    @property
    def available(self) -> bool:
        """Its tools are known. If it has ended since, the next call starts it again."""
        return self.error is None and self._listed

    @property
    def ready(self) -> bool:
        return self.error is None and self._session is not None and not self._session.over and not self.starting

    @property
    def starting(self) -> bool:
        return self._starting is not None and not self._starting.done()

    def begin(self) -> None:
        """Start it, unless it runs, is starting, or has ended too often recently. Returns at once."""
        if self.settings.problem is not None or self.starting or self.ready or self._closed:
            return
        now = time.monotonic()
        self._starts = [began for began in self._starts if now - began < RESTART_WINDOW]
        if len(self._starts) >= MOST_STARTS:
            wait = round(RESTART_WINDOW - (now - self._starts[0]))
            self.error = f"{self.error or 'it has ended'} (tried {MOST_STARTS} times; not again before {wait} seconds have passed)"
            return
        self._starts.append(now)
        self.error = None
        self._starting = asyncio.create_task(self._start(), name=f"starting {self.name}")

    async def started(self, seconds: float | None = None) -> None:
        """Wait until it is ready or has failed, or for at most `seconds`."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=seconds)

    async def _start(self) -> None:
        old, self._session = self._session, None
        if old is not None:
            await old.close()
        session = None
        try:
            session = self._session = OtherServerSession(self._make_way(), self._roots, self._heard)
            limit = self.settings.startup_seconds
            try:
                async with asyncio.timeout(limit):
                    await session.start(limit)
                    self.tools = await self._list_tools(session)
            except (TimeoutError, NoAnswerInTime):
                key = f"mcp_servers.{self.name}.startup_timeout_sec"
                raise Lost(f"it was not ready within {limit:g} seconds; `{key}` gives it longer") from None
            self._listed = True
            self.has_resources = "resources" in session.capabilities
            self.changed = False
        except (Lost, Refused, OSError) as error:
            self.error = self.redact(str(error))
            self.tools = ()
            self._listed = False
            if session is not None:
                await session.close()
        except ValueError as error:  # a variable that is not set, or a header that cannot be sent
            self.error = self.redact(str(error))
        except Exception as error:  # a bug of ours, which must not look as if the server were still starting
            logger.exception("starting the MCP server %s failed", self.name)
            self.error = f"it could not be started: {type(error).__name__}"

    async def refresh(self) -> bool:
        """Read the list again. True if it has changed. If it cannot be read, the old list stays."""
        self.changed = False
        session = self._session
        if session is None or not self.ready:
            return False
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                tools = await self._list_tools(session)
        except (TimeoutError, NoAnswerInTime, Lost, Refused):
            return False
        different = tools != self.tools
        self.tools = tools
        return different

    async def call(self, tool: RemoteTool, arguments: Mapping[str, Any], on_progress: Progress) -> dict[str, Any]:
        """Raises `Lost`, `NoAnswerInTime` or `Refused`. Never retried, because we do not know what a lost call has done.

        A tool whose description has changed is not called: it was offered, judged and perhaps approved with the old one.
        """
        session = await self._living()
        if self.changed:
            await self.refresh()
        if tool not in self.tools:
            raise Refused(CHANGED)
        params = {"name": tool.name, "arguments": arguments}
        return await session.request("tools/call", params, self.settings.tool_seconds, on_progress)

    async def request(self, method: str, params: Mapping[str, Any], on_progress: Progress | None = None) -> dict[str, Any]:
        session = await self._living()
        return await session.request(method, params, self.settings.tool_seconds, on_progress)

    async def _living(self) -> OtherServerSession:
        if not self.ready:
            self.begin()
            await self.started()
        if self._session is None or self.error is not None or self._session.over:
            raise Lost(self.error or "it is not running")
        return self._session

    async def close(self) -> None:
        self._closed = True
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._session is not None:
            await self._session.close()

    # -- what it says

    def _heard(self, method: str, params: Mapping[str, Any]) -> None:
        if method == LIST_CHANGED:
            self.changed = True
        elif method == QUESTION and self.on_question is not None:
            self.on_question(str(params.get("message"))[:500])

    async def _list_tools(self, session: OtherServerSession) -> tuple[RemoteTool, ...]:
        found: dict[str, RemoteTool] = {}
        cursor: str | None = None
        left = MOST_OFFERED
        for _ in range(MOST_PAGES):
            page = await session.request("tools/list", {} if cursor is None else {"cursor": cursor}, None)
            given = page.get("tools")
            for raw in cast(list[Any], given)[:MOST_LISTED] if isinstance(given, list) else []:
                tool = self._read_tool(raw, left, found)
                if tool is None:
                    continue
                await asyncio.sleep(0)  # its parameters may take long to process, and others wait
                left -= len(tool.definition)
                found[tool.name] = tool
                if len(found) >= MOST_TOOLS:
                    return _sorted(found)
            following = page.get("nextCursor")
            if not isinstance(following, str) or not following or following == cursor:
                break
            cursor = following
        return _sorted(found)

    def _read_tool(self, raw: object, room: int, known: Container[str]) -> RemoteTool | None:
        """None if it is not a tool, is a duplicate, or is not wanted by the user."""
        match raw:
            case {"name": str(name)} if name and len(name) <= 1_000 and name not in known and self.settings.has_tool(name):
                fields = cast(dict[str, Any], raw)
            case _:
                return None
        annotations = fields.get("annotations")
        hints: Mapping[str, Any] = cast(Mapping[str, Any], annotations) if isinstance(annotations, dict) else {}
        said = tuple(f"{hint} {'true' if hints[hint] else 'false'}" for hint in _HINTS if isinstance(hints.get(hint), bool))
        description = self.redact(clean_description(fields.get("description")))
        parameters = clean_parameters(fields.get("inputSchema")) if room > 0 else nothing_said()
        return RemoteTool(self.name, name, description if room > 0 else "", parameters, said, hints.get("readOnlyHint") is True)


def _sorted(tools: Mapping[str, RemoteTool]) -> tuple[RemoteTool, ...]:
    return tuple(tool for _, tool in sorted(tools.items()))
