"""The lines of the app server's protocol: JSON-RPC without the member `jsonrpc`. Notifications have the time of sending."""

import time
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import RequestId

Json = dict[str, Any]
Notice = tuple[str, Json]  # a notification: its method and its params

_encode = msgspec.json.Encoder().encode


def result_line(request_id: RequestId, result: Any) -> bytes:
    return b'{"id":%b,"result":%b}\n' % (_encode(request_id), _encode(result))


def error_line(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    error: Json = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return b'{"error":%b,"id":%b}\n' % (_encode(error), _encode(request_id))


def notification_line(method: str, params: Any) -> bytes:
    return b'{"method":%b,"params":%b,"emittedAtMs":%d}\n' % (_encode(method), _encode(params), milliseconds(time.time()))


def request_line(request_id: RequestId, method: str, params: Any) -> bytes:
    return b'{"method":%b,"id":%b,"params":%b}\n' % (_encode(method), _encode(request_id), _encode(params))


def milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
