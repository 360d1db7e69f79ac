"""What a server offers its clients. A new tool is a description in `tool_descriptions.py`, a handler, and an entry here."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from understudy.servers.mcp import codex_tools, results
from understudy.servers.mcp import tool_descriptions as described
from understudy.servers.mcp.call import AnswerShape, Handler

if TYPE_CHECKING:
    from understudy.servers.mcp.subscriptions import Subscriptions


class ClientTool(msgspec.Struct, frozen=True):
    """What `tools/list` says of a tool, what serves it, and how its results and failures look on the wire."""

    description: dict[str, Any]
    handler: Callable[[], Handler]  # called when the tool is: most clients never call the conversation tools
    shape: AnswerShape
    watches_turn: bool = False  # a call of it is answered by the end of a turn, so that it may ask, or become a task
    header_arguments: dict[str, str] = {}  # that are in headers, too, over HTTP; each with the name there


def _conversations():  # the module itself, whose names a type checker knows
    from understudy.servers.mcp import conversation_tools

    return conversation_tools


_TABLE = (
    ClientTool(described.CODEX, lambda: codex_tools.codex, results.SESSION, watches_turn=True),
    ClientTool(described.CODEX_REPLY, lambda: codex_tools.codex_reply, results.SESSION, watches_turn=True),
    ClientTool(described.CONVERSATION_CREATE, lambda: _conversations().create, results.MESSAGE),
    ClientTool(described.CONVERSATION_SEND_MESSAGE, lambda: _conversations().send_message, results.STATUS),
    ClientTool(described.CONVERSATION_STREAM, lambda: _conversations().stream, results.BARE_FAILURE),
    ClientTool(described.CONVERSATIONS_LIST, lambda: _conversations().list_conversations, results.MESSAGE),
    ClientTool(described.CONVERSATION_INTERRUPT, lambda: _conversations().interrupt, results.STATUS),
    ClientTool(described.CONVERSATION_COMPACT, lambda: _conversations().compact, results.STATUS),
    ClientTool(described.CONVERSATION_FORK, lambda: _conversations().fork, results.MESSAGE),
    ClientTool(described.CONVERSATION_APPROVE, lambda: _conversations().approve, results.STATUS),
    ClientTool(described.CONVERSATION_ARCHIVE, lambda: _conversations().archive, results.STATUS),
    ClientTool(described.CONVERSATION_UNARCHIVE, lambda: _conversations().unarchive, results.STATUS),
    ClientTool(described.CONVERSATION_RENAME, lambda: _conversations().rename, results.STATUS),
    ClientTool(described.CONVERSATION_DELETE, lambda: _conversations().delete, results.STATUS),
)

TOOLS: Final[dict[str, ClientTool]] = {tool.description["name"]: tool for tool in _TABLE}


class Offer(msgspec.Struct, frozen=True):
    """Tools, methods beside those that every server has, and what it says of itself. Ours is `OFFER`; a test program can offer more
    on the same dispatcher and the same transports.
    """

    tools: Mapping[str, ClientTool]
    methods: Mapping[str, Handler] = {}  # in both eras
    legacy_methods: Mapping[str, Handler] = {}  # only after a handshake
    capabilities: Mapping[str, Any] = {}  # more than tools; in both eras
    subscriptions: "Subscriptions | None" = None  # where something that clients can listen for changes


OFFER: Final = Offer(TOOLS)
