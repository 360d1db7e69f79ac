"""The tools that clients can call. A new one is a description in `tool_descriptions.py`, a handler, and an entry here."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from understudy.servers.mcp import codex_tools, results
from understudy.servers.mcp import tool_descriptions as described
from understudy.servers.mcp.call import AnswerShape, Handler


class ClientTool(msgspec.Struct, frozen=True):
    """What `tools/list` says of a tool, what serves it, and how its results and failures look on the wire."""

    description: dict[str, Any]
    handler: Callable[[], Handler]  # called when the tool is: most clients never call the conversation tools
    shape: AnswerShape


def _conversations():  # the module itself, whose names a type checker knows
    from understudy.servers.mcp import conversation_tools

    return conversation_tools


_TABLE = (
    ClientTool(described.CODEX, lambda: codex_tools.codex, results.SESSION),
    ClientTool(described.CODEX_REPLY, lambda: codex_tools.codex_reply, results.SESSION),
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
