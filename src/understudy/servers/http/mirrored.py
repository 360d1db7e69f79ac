"""Headers that repeat what is in the body of a request, for proxies which read only those: both must say the same."""

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, cast

from understudy.servers.http.asked import Asked
from understudy.servers.mcp.tool_table import Offer

_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PARAM = "mcp-param-"


def mirroring_problem(asked: Asked, method: str, params: Mapping[str, Any], offer: Offer) -> str | None:
    """What is wrong with the headers of a request that names something; None if nothing is."""
    member = _NAMED_BY.get(method)
    if member is not None and _plain(asked.header(b"mcp-name")) != params.get(member):
        return f"the header Mcp-Name is missing, or is not the `{member}` of the request"
    if method.startswith("tasks/") and asked.header(b"mcp-name") is not None:  # some clients never send it there
        return None if _plain(asked.header(b"mcp-name")) == params.get("taskId") else "the header Mcp-Name is not the `taskId`"
    return _argument_problem(asked, params, offer) if method == "tools/call" else None


def _argument_problem(asked: Asked, params: Mapping[str, Any], offer: Offer) -> str | None:
    """Arguments that a tool's schema wants in headers (`x-mcp-header`)."""
    tool = offer.tools.get(str(params.get("name")))
    if tool is None or not tool.header_arguments:
        return None
    given = params.get("arguments")
    arguments = cast(dict[str, Any], given) if isinstance(given, dict) else {}
    for argument, header in tool.header_arguments.items():
        sent = asked.header(f"{_PARAM}{header}".lower().encode())
        value = arguments.get(argument)
        if (sent is not None or value is not None) and (sent is None or _plain(sent) != _spelled(value)):
            return f"the header Mcp-Param-{header} is missing, or is not the argument `{argument}`"
    return None


def _spelled(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _plain(header: str | None) -> str | None:
    """Decoded where it is written as `=?base64?…?=`; None where that cannot be read."""
    if header is None or not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return b64decode(header[len("=?base64?") : -2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
