"""One way to hold every Python client over HTTP: the official SDK of both lines, fastmcp, the OpenAI Agents SDK."""

import importlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

LONG_SECONDS = 600
Result = tuple[dict[str, Any], bool]  # the structured content, and whether the tool failed


@dataclass
class Program:
    """What a program gives a client: where the server is, and whom to tell of progress and questions."""

    url: str
    token: str
    era: str
    seconds: float | None  # its own limit of a call, where the test sets one
    on_progress: Callable[[str], None]
    questions: list[str] = field(default_factory=list[str])

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def mode(self) -> str:
        return "legacy" if self.era == "legacy" else "auto"

    async def progress(self, count: float, total: float | None, message: str | None) -> None:
        self.on_progress(message or "")


@dataclass
class Connection:
    tools: list[str]
    call: Callable[[str, dict[str, Any]], Awaitable[Result]]
    connect_again: Callable[[], Awaitable[None]] | None = None  # for clients that are of no use after a call has failed


@asynccontextmanager
async def sdk_1(program: Program) -> AsyncGenerator[Connection]:
    mcp: Any = importlib.import_module("mcp")  # of the script's environment, not of the one that checks its types
    http: Any = importlib.import_module("mcp.client.streamable_http")

    async def approve(context: Any, params: Any) -> Any:
        program.questions.append(params.message)
        return mcp.types.ElicitResult(action="accept", content={"decision": "approved"})

    way = http.streamablehttp_client(program.url, headers=program.headers, timeout=LONG_SECONDS, sse_read_timeout=LONG_SECONDS)
    async with way as (read, write, _), mcp.ClientSession(read, write, elicitation_callback=approve) as session:
        await session.initialize()
        limit = None if program.seconds is None else timedelta(seconds=program.seconds)

        async def call(name: str, given: dict[str, Any]) -> Result:
            result = await session.call_tool(name, given, read_timeout_seconds=limit, progress_callback=program.progress)
            return result.structuredContent or {}, result.isError

        yield Connection([tool.name for tool in (await session.list_tools()).tools], call)


@asynccontextmanager
async def sdk_2(program: Program) -> AsyncGenerator[Connection]:
    mcp: Any = importlib.import_module("mcp")
    http: Any = importlib.import_module("mcp.client.streamable_http")
    httpx: Any = importlib.import_module("httpx2")

    async def approve(context: Any, params: Any) -> Any:
        program.questions.append(params.message)
        return mcp.types.ElicitResult(action="accept", content={"decision": "approved"})

    async with httpx.AsyncClient(headers=program.headers, timeout=httpx.Timeout(LONG_SECONDS)) as client:
        way = http.streamable_http_client(program.url, http_client=client)
        async with mcp.Client(way, mode=program.mode, elicitation_callback=approve) as session:

            async def call(name: str, given: dict[str, Any]) -> Result:
                result = await session.call_tool(
                    name, given, read_timeout_seconds=program.seconds, progress_callback=program.progress
                )
                return result.structured_content or {}, bool(result.is_error)

            yield Connection([tool.name for tool in (await session.list_tools()).tools], call)


@asynccontextmanager
async def fastmcp(program: Program) -> AsyncGenerator[Connection]:
    client = _new_fastmcp(program)
    async with client:
        yield await _connection(lambda: client)


@asynccontextmanager
async def fastmcp_tasks(program: Program) -> AsyncGenerator[Connection]:
    """Every call becomes a task, which the client asks about until it is over. A break while it asks ends its session for good."""
    importlib.import_module("fastmcp_tasks.client")
    client = await _new_fastmcp(program).__aenter__()

    async def connect_again() -> None:
        nonlocal client
        with suppress(Exception):  # which is why it ended
            await client.__aexit__(None, None, None)
        client = await _new_fastmcp(program).__aenter__()

    try:
        yield await _connection(lambda: client, connect_again)
    finally:
        await client.__aexit__(None, None, None)


def _new_fastmcp(program: Program) -> Any:
    library: Any = importlib.import_module("fastmcp")
    transports: Any = importlib.import_module("fastmcp.client.transports")

    async def approve(message: str, form: Any, params: Any, context: Any) -> Any:
        program.questions.append(message)
        return form(decision="approved") if form is not None else {}

    way = transports.StreamableHttpTransport(program.url, headers=program.headers)
    handlers: dict[str, Any] = {"elicitation_handler": approve, "progress_handler": program.progress}
    return library.Client(way, mode=program.mode, timeout=program.seconds, **handlers)


async def _connection(client: Callable[[], Any], connect_again: Callable[[], Awaitable[None]] | None = None) -> Connection:
    async def call(name: str, given: dict[str, Any]) -> Result:
        result = await client().call_tool(name, given, raise_on_error=False)
        return result.structured_content or {}, result.is_error

    return Connection([tool.name for tool in await client().list_tools()], call, connect_again)


@asynccontextmanager
async def agents(program: Program) -> AsyncGenerator[Connection]:
    """Which era it speaks is decided by the SDK that it finds installed. It can neither be asked nor shown progress."""
    mcp: Any = importlib.import_module("agents.mcp")
    params = {"url": program.url, "headers": program.headers, "timeout": LONG_SECONDS, "sse_read_timeout": LONG_SECONDS}
    limit = program.seconds or LONG_SECONDS
    async with mcp.MCPServerStreamableHttp(params=params, client_session_timeout_seconds=limit) as server:

        async def call(name: str, given: dict[str, Any]) -> Result:
            result = await server.call_tool(name, given)
            if program.era == "legacy":
                return result.structuredContent or {}, bool(result.isError)
            return result.structured_content or {}, bool(result.is_error)

        async def connect_again() -> None:
            await server.cleanup()
            await server.connect()

        yield Connection([tool.name for tool in await server.list_tools()], call, connect_again)


LINES: dict[str, Callable[[Program], AbstractAsyncContextManager[Connection]]] = {
    "python1": sdk_1,
    "python2": sdk_2,
    "fastmcp": fastmcp,
    "fastmcp-tasks": fastmcp_tasks,
    "agents": agents,
}
