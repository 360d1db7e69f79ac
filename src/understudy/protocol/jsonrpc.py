"""JSON-RPC 2.0 messages: parsing a line, its nesting depth, and the bytes of an answer. No I/O."""

import json
import re
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)  # also matches strings, because brackets inside them do not count


def is_deeper_than(text: bytes | bytearray, levels: int) -> bool:
    depth = 0
    for found in BRACKETS.finditer(text):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth > levels:
                    return True
            case b"}" | b"]":
                depth -= 1
            case _:
                pass  # a string
    return False


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

RequestId = str | int
LARGEST_ID = 2**63 - 1
MOST_NESTED = 512

_encode = msgspec.json.Encoder().encode


class _Incoming(msgspec.Struct):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _PlainRequest(msgspec.Struct):
    """The form of nearly every line."""

    id: str | Annotated[int, msgspec.Meta(ge=-LARGEST_ID - 1, le=LARGEST_ID)]
    method: str
    params: Raw


class _MarkedRequest(_PlainRequest):
    """A plain request that also has `jsonrpc`."""

    jsonrpc: Literal["2.0"]


_decode_plain = msgspec.json.Decoder(_PlainRequest).decode
_decode_marked = msgspec.json.Decoder(_MarkedRequest).decode
_decode_incoming = msgspec.json.Decoder(_Incoming).decode
_decode_any = msgspec.json.Decoder().decode


class Request(msgspec.Struct, frozen=True):
    id: RequestId
    method: str
    params: Raw | None


class Notification(msgspec.Struct, frozen=True):
    method: str
    params: Raw | None


class Response(msgspec.Struct, frozen=True):
    """An answer to one of our requests: a result, or the peer's error."""

    id: RequestId
    result: Any
    error: Any = None
    failed: bool = False
    unreadable: bool = False  # an answer came, but it cannot be understood


class Malformed(msgspec.Struct, frozen=True):
    """A line that is none of these. It has the `id` if one could be read, or `answers` if it was meant as a response."""

    code: int
    reason: str
    id: RequestId | None = None
    answers: RequestId | None = None


Incoming = Request | Notification | Response | Malformed


def read_line(line: bytes | bytearray, *, marked: bool = False) -> Incoming:
    """`marked`: a message must have `"jsonrpc": "2.0"`, as the specification says. Clients on pipes never had to send it."""
    if line.count(b"[") + line.count(b"{") > MOST_NESTED and _is_too_deep(line):
        return _unreadable(line, RecursionError())
    try:
        if not line.isascii():
            line.decode()  # raw parts are not decoded below, and later code relies on valid bytes
        try:
            plain = (_decode_marked if marked else _decode_plain)(line)
        except msgspec.ValidationError:
            message = _decode_incoming(line)
        else:
            return Request(plain.id, plain.method, None if bytes(plain.params) == b"null" else plain.params)
    except (msgspec.ValidationError, RecursionError):
        return _not_an_object(line)
    except (msgspec.DecodeError, UnicodeError) as error:
        return _unreadable(line, error)
    try:
        if marked and (message.jsonrpc is UNSET or _decode_any(message.jsonrpc) != "2.0"):
            return Malformed(INVALID_REQUEST, 'Invalid Request: `jsonrpc` must be "2.0"', _read_id(message.id)[0])
        return _classify(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(line, error)


def _is_too_deep(line: bytes | bytearray) -> bool:
    """Whether the nesting is too deep: some interpreters would read it and fail on first use."""

    return is_deeper_than(line, MOST_NESTED)


def too_long(beginning: bytes, limit: int) -> Malformed:
    """The error for a line that was too long; only its `beginning` was kept."""
    return _malformed(f"a line may have at most {limit} bytes", beginning, _id_by_sight(beginning))


def too_large_for_memory(beginning: bytes) -> Malformed:
    """The error for a line that did not fit into memory."""
    return _malformed(
        "there is no memory left for a line as long as this; free some and try again", beginning, _id_by_sight(beginning)
    )


def _malformed(reason: str, line: bytes, found: RequestId | None) -> Malformed:
    reason = f"Parse error: {reason}"
    if _has_method(line):
        return Malformed(PARSE_ERROR, reason, found)
    return Malformed(PARSE_ERROR, reason, answers=found)


def _has_method(line: bytes) -> bool:
    return b'"method"' in line


def _unreadable(line: bytes | bytearray, error: Exception) -> Malformed:
    request_id = _id_of_unreadable(bytes(line))
    return _malformed(why_unreadable(bytes(line), error), bytes(line), request_id)


def why_unreadable(text: bytes, error: Exception) -> str:
    """What is wrong with text that should be JSON. `error` comes from the decoder, which misreports an incomplete character."""
    match error:
        case UnicodeDecodeError():
            return f"the text is not UTF-8 (byte {_undecodable(text)})"
        case RecursionError():
            return "it is nested too deeply"
        case _ if _has_surrogate(text) and _is_lenient_json(text):
            return "a text has half a character: a surrogate (\\ud800 to \\udfff) without its other half"
        case _:
            return str(error)


def _undecodable(text: bytes) -> int:
    """The offset of the first byte that is not UTF-8; the decoder counts from the beginning of a string."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _is_lenient_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_surrogate(line: bytes | bytearray) -> bool:
    return re.search(rb"\\u[dD][89a-fA-F]", line) is not None


def _id_of_unreadable(line: bytes) -> RequestId | None:
    """The id of valid JSON whose text we cannot take. Without an answer to it, the caller would wait for ever."""
    try:
        message: Any = json.loads(line.decode(errors="replace"), parse_int=lambda digits: int(digits) if len(digits) < 21 else None)
    except RecursionError:
        return _id_by_sight(line)
    except ValueError:
        return None
    request_id = _usable_id(cast(dict[str, Any], message).get("id")) if isinstance(message, dict) else None
    if isinstance(request_id, str) and any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in request_id):
        return None  # the unreadable part is the id itself
    return request_id


def _id_by_sight(line: bytes) -> RequestId | None:
    """The id where clients usually write it: at the beginning or the end of the line."""

    value = rb'"id"\s*:\s*(-?\d{1,19}|"[^"\\]{0,200}")\s*'
    first = re.match(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*,\s*)*' + value + rb"[,}]", line[:2000])
    found = first or re.search(rb",\s*" + value + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$', line[-2000:])
    if found is None:
        return None
    try:
        return _usable_id(_decode_any(found[1]))
    except (msgspec.DecodeError, UnicodeError):
        return None


def _not_an_object(line: bytes | bytearray) -> Malformed:
    try:
        value = _decode_any(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(line, error)
    if isinstance(value, list):
        return Malformed(INVALID_REQUEST, "Invalid Request: batches are not part of this protocol; send one message a line")
    return Malformed(INVALID_REQUEST, "Invalid Request: a message is a JSON object")


def _classify(message: _Incoming) -> Incoming:
    request_id, has_id = _read_id(message.id)
    if message.method is not UNSET:
        method = _decode_any(message.method)
        if not isinstance(method, str):
            return Malformed(INVALID_REQUEST, "Invalid Request: `method` must be a string", request_id)
        params = None if message.params is UNSET or bytes(message.params) == b"null" else message.params
        if not has_id:
            return Notification(method, params)
        if request_id is None:
            return Malformed(INVALID_REQUEST, "Invalid Request: `id` must be a string or a whole number within 64 bits")
        return Request(request_id, method, params)
    if not has_id:
        return Malformed(INVALID_REQUEST, "Invalid Request: neither a `method` nor an `id`")
    if request_id is None:
        return Malformed(INVALID_REQUEST, "Invalid Request: `id` must be a string or a whole number within 64 bits")
    if message.result is not UNSET:
        error = None if message.error is UNSET else _decode_any(message.error)
        if error is None:
            return Response(request_id, _decode_any(message.result))
    if message.error is not UNSET:  # even beside a result: a peer that sends both has not said yes
        return Response(request_id, None, _decode_any(message.error), failed=True)
    return Malformed(INVALID_REQUEST, "Invalid Request: no `method`, `result` or `error`", request_id, answers=request_id)


def _read_id(raw: Raw | UnsetType) -> tuple[RequestId | None, bool]:
    if raw is UNSET:
        return None, False
    return _usable_id(_decode_any(raw)), True


def _usable_id(value: object) -> RequestId | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and -LARGEST_ID - 1 <= value <= LARGEST_ID:
        return value
    return None


def result_line(request_id: RequestId, result: Any) -> bytes:
    """`result` may be JSON that is already encoded."""
    body = result if isinstance(result, bytes) else _encode(result)
    return b'{"id":%b,"jsonrpc":"2.0","result":%b}\n' % (_encode(request_id), body)


def result_begins(request_id: RequestId) -> bytes:
    """The line of a result, up to the result."""
    return b'{"id":%b,"jsonrpc":"2.0","result":' % _encode(request_id)


ERROR_BEGINS = b'{"error":'  # the beginning of an error's line, and of no other line


def error_line(request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return ERROR_BEGINS + b'%b,"id":%b,"jsonrpc":"2.0"}\n' % (_encode(error), _encode(request_id))


def notification_line(method: str, params: Any) -> bytes:
    body = params if isinstance(params, bytes) else _encode(params)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}\n' % (_encode(method), body)


def request_line(request_id: RequestId, method: str, params: Any) -> bytes:
    return b'{"id":%b,"jsonrpc":"2.0","method":%b,"params":%b}\n' % (_encode(request_id), _encode(method), _encode(params))
