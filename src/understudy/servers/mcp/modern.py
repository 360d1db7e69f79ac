"""The era 2026-07-28, without handshake and session: each request says in its `_meta` what the client is and can do."""

from collections.abc import Mapping
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import RequestId, result_begins, result_line
from understudy.servers.failures import InvalidParams, ProtocolError, to_rpc_error
from understudy.servers.mcp.call import AnswerShape
from understudy.servers.mcp.handshake import MODERN, PREFIX, Handshake, server_info

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
LIST_TTL_MS = 3_600_000  # the tools are part of the program

_LAST_MEMBER = b',"_meta":%b}}\n' % msgspec.json.encode({f"{PREFIX}serverInfo": server_info()})
_decode_any = msgspec.json.Decoder().decode


class _Named(msgspec.Struct):
    name: str
    version: str = ""


class _Meta(msgspec.Struct):
    version: str = msgspec.field(name=f"{PREFIX}protocolVersion")
    capabilities: dict[str, Any] = msgspec.field(name=f"{PREFIX}clientCapabilities")
    info: _Named | None = msgspec.field(name=f"{PREFIX}clientInfo", default=None)


class _Params(msgspec.Struct):
    meta: _Meta = msgspec.field(name="_meta")


_decode = msgspec.json.Decoder(_Params).decode


def read_meta(params: msgspec.Raw | None) -> tuple[Handshake, dict[str, Any]]:
    """What the client says of itself, and its capabilities.

    Raises `InvalidParams`, or `ProtocolError` for a version that is not served.
    """
    try:
        meta = _decode(params or b"{}").meta
    except msgspec.MsgspecError as error:
        raise InvalidParams(f"Invalid `_meta` of a request: {error}") from None
    if meta.version != MODERN:
        raise ProtocolError(
            UNSUPPORTED_VERSION,
            f"Unsupported protocol version `{meta.version[:100]}`",
            {"supported": [MODERN], "requested": meta.version},
        )
    info = meta.info or _Named("")
    asked, extended = _takes_forms(meta.capabilities), "extensions" in meta.capabilities
    return Handshake(MODERN, asked, info.name, info.version, extended=extended), meta.capabilities


def _takes_forms(capabilities: dict[str, Any]) -> bool:
    """An empty declaration means forms; one that names only other ways does not."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and (not declared or "form" in declared)


def discovered(more: Mapping[str, Any]) -> dict[str, Any]:
    """`more`: capabilities."""
    return {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": False}, "extensions": {f"{PREFIX}tasks": {}}, **more},
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "public",
    }


class ModernShape:
    """Every result says its kind and who gave it."""

    def __init__(self, shape: AnswerShape, more: dict[str, Any] | None = None) -> None:
        self._shape = shape
        self._more = more or {}

    def succeeded(self, request_id: RequestId, result: Any) -> bytes:
        return self._completed(request_id, self._shape.succeeded(request_id, result))

    def failed(self, request_id: RequestId, error: BaseException) -> bytes:
        if isinstance(error, ProtocolError | InvalidParams):  # the request itself is wrong, whatever it asks for
            return to_rpc_error(request_id, error)
        return self._completed(request_id, self._shape.failed(request_id, error))

    def _completed(self, request_id: RequestId, line: bytes) -> bytes:
        plain = not (self._more or b'"_meta"' in line or b'"resultType"' in line)
        if plain and line.startswith(before := result_begins(request_id) + b"{") and line[len(before) : -2] != b"}":
            return before + b'"resultType":"complete",' + line[len(before) : -3] + _LAST_MEMBER
        answer = _decode_any(line)
        if "result" not in answer:
            return line
        result: dict[str, Any] = answer["result"]
        meta = {**result.get("_meta", {}), f"{PREFIX}serverInfo": server_info()}
        return result_line(request_id, {"resultType": "complete", **self._more, **result, "_meta": meta})
