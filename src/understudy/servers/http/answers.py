"""Complete answers over HTTP: a status, headers and a body. Errors are described in JSON-RPC."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import RequestId, error_line

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Headers = Iterable[tuple[bytes, bytes]]


class Refusal(Exception):
    """A request that is refused with a status before it is served."""

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        code: int = -32600,
        headers: Headers = (),
        request_id: RequestId | None = None,
        data: Any = None,
        lacks: tuple[str, bool] | None = None,
    ) -> None:
        """`lacks`: the missing right, and whether it is missing on others' conversations."""
        super().__init__(reason)
        self.status = status
        self.code = code
        self.headers = tuple(headers)
        self.request_id = request_id
        self.data = data
        self.lacks = lacks

    @property
    def body(self) -> bytes:
        return error_line(self.request_id, self.code, str(self), self.data)


async def send_answer(send: Send, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    length = (b"content-length", str(len(body)).encode())
    kind = ((b"content-type", b"application/json"),) if body else ()
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
