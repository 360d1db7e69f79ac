"""How results of tools look on the wire: a handler's result or error in its tool's shape."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from understudy.protocol.jsonrpc import RequestId, result_line
from understudy.servers.failures import failed_result, to_text

_encode = msgspec.json.Encoder().encode


class WithMeta(msgspec.Struct, frozen=True):
    """A result with additional data that only programs read."""

    result: dict[str, Any]
    meta: dict[str, Any]


class SessionShape:
    """`codex` and `codex-reply`: what the handler returns is the whole result."""

    def succeeded(self, request_id: RequestId, result: Any) -> bytes:
        return result_line(request_id, result)

    def failed(self, request_id: RequestId, error: BaseException) -> bytes:
        return result_line(request_id, failed_result(to_text(error)))


class StructuredShape:
    """The conversation tools: an object, as `structuredContent` and as text. A failure too, if its tool has a shape for it."""

    def __init__(self, failure: Callable[[str], dict[str, Any]] | None) -> None:
        self._failure = failure

    def succeeded(self, request_id: RequestId, result: Any) -> bytes:
        if isinstance(result, WithMeta):
            return result_line(request_id, _structured(result.result) | {"_meta": result.meta})
        return result_line(request_id, _structured(result))

    def failed(self, request_id: RequestId, error: BaseException) -> bytes:
        text = to_text(error)
        result = failed_result(text) if self._failure is None else _structured(self._failure(text), is_error=True)
        return result_line(request_id, result)


def _structured(result: dict[str, Any], *, is_error: bool = False) -> dict[str, Any]:
    text = _encode(result).decode()
    return {"content": [{"text": text, "type": "text"}], "isError": is_error, "structuredContent": result}


SESSION: Final = SessionShape()
STATUS: Final = StructuredShape(lambda reason: {"status": "error", "message": reason})
MESSAGE: Final = StructuredShape(lambda reason: {"message": reason})
BARE_FAILURE: Final = StructuredShape(None)
