"""What a server offers its clients. A new tool needs a description in `tool_descriptions.py`, a handler, and an entry here."""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from understudy.errors import AgentError
from understudy.protocol.callers import Right
from understudy.protocol.jsonrpc import LARGEST_ID
from understudy.servers.arguments import did_you_mean
from understudy.servers.failures import InvalidParams
from understudy.servers.mcp import codex_tools, results
from understudy.servers.mcp import tool_descriptions as described
from understudy.servers.mcp.call import AnswerShape, Call, Handler
from understudy.servers.mcp.handshake import MODERN, OURS

if TYPE_CHECKING:
    from understudy.servers.mcp.task_methods import Subscriptions

logger = logging.getLogger(__name__)


class ClientTool(msgspec.Struct, frozen=True):
    """A tool's description for `tools/list`, its handler, and the shape of its results and failures."""

    description: dict[str, Any]
    handler: Callable[[], Handler]  # called when the tool is: most clients never use the conversation tools
    shape: AnswerShape
    watches_turn: bool = False  # a call of it is answered at the end of a turn, so it may ask questions or become a task
    header_arguments: dict[str, str] = {}  # arguments that are also in HTTP headers, each with the header's name
    needs: tuple[Right, ...] = ()  # callers without these rights on any conversation cannot use it
    needs_with: dict[str, Right] = {}  # additional rights, if such an argument is given


@cache
def _conversations():  # a function, so that a type checker knows the module's names
    from understudy.servers.mcp import conversation_tools

    return conversation_tools


@cache
def _searching():
    from understudy.servers.mcp import searching

    return searching


@cache
def _prompts():
    from understudy.servers import prompts  # few clients ask

    return prompts


_TABLE = (
    ClientTool(described.CODEX, lambda: codex_tools.codex, results.SESSION, needs=("run", "read"), watches_turn=True),
    ClientTool(
        described.CODEX_REPLY,
        lambda: codex_tools.codex_reply,
        results.SESSION,
        needs=("read",),
        needs_with={"prompt": "run"},
        watches_turn=True,
    ),
    ClientTool(described.CONVERSATION_CREATE, lambda: _conversations().create, results.MESSAGE, needs=("run", "read")),
    ClientTool(described.CONVERSATION_SEND_MESSAGE, lambda: _conversations().send_message, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_STREAM, lambda: _conversations().stream, results.BARE_FAILURE, needs=("read",)),
    ClientTool(described.CONVERSATIONS_LIST, lambda: _conversations().list_conversations, results.MESSAGE, needs=("read",)),
    ClientTool(described.CONVERSATIONS_SEARCH, lambda: _searching().search, results.MESSAGE, needs=("read",)),
    ClientTool(described.CONVERSATION_INTERRUPT, lambda: _conversations().interrupt, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_COMPACT, lambda: _conversations().compact, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_FORK, lambda: _conversations().fork, results.MESSAGE, needs=("run", "read")),
    ClientTool(described.CONVERSATION_APPROVE, lambda: _conversations().approve, results.STATUS, needs=("approve", "read")),
    ClientTool(described.CONVERSATION_ARCHIVE, lambda: _conversations().archive, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_UNARCHIVE, lambda: _conversations().unarchive, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_RENAME, lambda: _conversations().rename, results.STATUS, needs=("run", "read")),
    ClientTool(described.CONVERSATION_DELETE, lambda: _conversations().delete, results.STATUS, needs=("run", "read")),
)

TOOLS: Final[dict[str, ClientTool]] = {tool.description["name"]: tool for tool in _TABLE}


class Offer(msgspec.Struct, frozen=True):
    """Tools, methods beside those that every server has, and capabilities. Ours is `OFFER`; a test program can offer more with the
    same dispatcher and transports.
    """

    tools: Mapping[str, ClientTool]
    methods: Mapping[str, Handler] = {}  # in both eras
    legacy_methods: Mapping[str, Handler] = {}  # only after a handshake
    capabilities: Mapping[str, Any] = {}  # beyond tools; in both eras
    subscriptions: "Subscriptions | None" = None  # set if clients can listen for changes


async def _list_prompts(call: Call) -> dict[str, Any]:
    found = await _prompts().list_prompts(call.client.engine, call.client.caller)
    return {**found, "ttlMs": 0, "cacheScope": "private"} if call.client.peer.version == MODERN else found


async def _get_prompt(call: Call) -> dict[str, Any]:
    return await _prompts().get_prompt(call.client.engine, call.client.caller, call.arguments or b"{}")


OFFER: Final = Offer(TOOLS, {"prompts/list": _list_prompts, "prompts/get": _get_prompt}, capabilities=OURS)


# -- `tools/call` and `tools/list` in every era

WritableId = str | Annotated[int, msgspec.Meta(ge=-LARGEST_ID - 1, le=LARGEST_ID)]  # ids that can be written back


class _CallMeta(msgspec.Struct, rename="camel"):
    progress_token: WritableId | None = None


class _CallParams(msgspec.Struct, rename={"meta": "_meta"}):
    name: str
    arguments: Any = None
    meta: _CallMeta | None = None


_read_call = msgspec.json.Decoder(_CallParams).decode


def find_tool(call: Call, tools: Mapping[str, ClientTool]) -> Handler:
    """Also sets the shape of the call's answer: results of tools have their own shapes."""
    try:
        params = _read_call(call.arguments or b"{}")
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid params of tools/call: {error}") from None
    logger.debug("request %.100r: tools/call %.100r", call.id, params.name)
    tool = tools.get(params.name)
    if tool is None:
        call.shape = results.SESSION
        raise AgentError(f"Unknown tool '{params.name}'{did_you_mean(params.name, tools)}")
    call.shape = tool.shape
    call.arguments = params.arguments
    call.progress_token = None if params.meta is None else params.meta.progress_token
    return tool.handler()


def list_of_tools(offer: Offer) -> dict[str, Any]:
    return {"tools": [tool.description for tool in offer.tools.values()]}
