"""Reads messages of other servers, over any transport; and the limits on what a server may send, leave waiting and be asked."""

import json
from typing import Any

import msgspec
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from understudy.protocol.jsonrpc import BRACKETS

MOST_LINE = 16 << 20  # bytes of one message
MOST_JUNK = 64 << 20  # bytes without a message, between two messages
MOST_UNREAD = 32 << 20  # bytes of messages that wait to be handled
MOST_UNSENT = 1_000  # messages waiting for a server that does not read
MOST_UNANSWERED = 1_000  # a server's requests whose answers it has not read
MOST_PAGES = 50  # pages of a list
MOST_TOOLS = 512  # tools of one server
MOST_LISTED = 4_096  # entries of a page that are looked at, tools or not
MOST_OFFERED = 256 << 10  # bytes of all tools of one server together; beyond that, parameters are left out
MOST_REFRESHES = 8  # of a server's list in one turn: each one invalidates the provider's cache
MOST_STARTS = 4  # after a crash, within `RESTART_WINDOW`
RESTART_WINDOW = 60.0  # seconds
REFRESH_SECONDS = 5.0  # time to read a list that has changed
NOTICE_SECONDS = 2.0  # between two progress messages that are passed on
MOST_NOTICES = 50  # progress messages and questions by the server, for one call


_DEEPEST = 100


def read_message(text: bytes) -> JSONRPCMessage | None:
    """None if it is not a message. An unreadable answer becomes a failure, or whoever asked would wait for ever."""
    for mend in (bytes, _mended):
        try:
            return jsonrpc_message_adapter.validate_json(mend(text), by_name=False)
        except (ValueError, RecursionError):
            continue
    if (tools := _tools_in(text)) is not None:
        return tools
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    if answer.method is not None:
        return None
    return JSONRPCError(jsonrpc="2.0", id=answer.id, error=ErrorData(code=PARSE_ERROR, message="its answer cannot be read"))


def readable(text: bytes) -> bytes:
    """The message for a reader without these rules: unchanged if it is valid, or if it is not a message at all."""
    try:
        jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        message = read_message(text)
        return text if message is None else message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return text


def _mended(text: bytes) -> bytes:
    """Replace half characters, which come from names of files, by question marks. Raises ValueError or RecursionError."""
    return json.dumps(json.loads(text.decode("utf-8", "replace")), ensure_ascii=False).encode("utf-8", "replace")


def _tools_in(text: bytes) -> JSONRPCResponse | None:
    """A list of tools in which one schema is nested too deeply: drop that, so that the other tools remain."""
    if b'"tools"' not in text:
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(_without_depths(text), by_name=False)
    except ValueError:
        return None
    return message if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list) else None


def _without_depths(text: bytes) -> bytes:
    """Replace what is nested too deeply for a parser by `null`. Only counts brackets, so it needs no stack."""
    kept: list[bytes] = []
    depth = start = 0
    for found in BRACKETS.finditer(text):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth == _DEEPEST:
                    kept += (text[start : found.start()], b"null")
            case b"}" | b"]":
                if depth == _DEEPEST:
                    start = found.end()
                depth -= 1
            case _:
                pass  # a text
    return b"".join((*kept, text[start:]))


class _Answer(msgspec.Struct):
    id: int | str
    method: Any = None
