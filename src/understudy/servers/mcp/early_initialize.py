"""Answers `initialize` before anything is imported that takes time, `json` included: clients wait for it when they start.

Whatever else comes first is left to the dispatcher.
"""

import os

from understudy.servers.mcp.handshake import Handshake, Result, negotiate, server_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_MOST_CHUNKS = 64  # no `initialize` is longer than this; the transport bounds the rest


class EarlyInput:
    """What was read of standard input before the dispatcher was there."""

    __slots__ = ("ended", "handshake", "unanswered")

    def __init__(self, handshake: Handshake | None, unanswered: bytes, *, ended: bool) -> None:
        self.handshake = handshake  # `initialize`, where it came first and was answered
        self.unanswered = unanswered  # what came after it, or all of it
        self.ended = ended  # the input is over already


def answer_early(read_fd: int = 0, write_fd: int = 1) -> EarlyInput:
    """Wait for the first line. If it is a plain `initialize`, answer it; else leave it to the dispatcher."""
    chunks: list[bytes] = []  # joined once: a line may be very long
    while not chunks or (b"\n" not in chunks[-1] and len(chunks) < _MOST_CHUNKS):
        chunk = os.read(read_fd, 65536)
        if not chunk:
            return EarlyInput(None, b"".join(chunks), ended=True)
        chunks.append(chunk)
    buffer = b"".join(chunks)
    line, ended, rest = buffer.partition(b"\n")
    answered = _answer(line) if ended else None
    if answered is None:
        return EarlyInput(None, buffer, ended=False)
    handshake, answer = answered
    view = memoryview(answer)
    while view:
        view = view[os.write(write_fd, view) :]
    return EarlyInput(handshake, rest, ended=False)


def _answer(line: bytes) -> tuple[Handshake, bytes] | None:
    try:
        message = _read_json(line)
        params: Any = message["params"]
        request_id = message["id"]
        version, capabilities, client = params["protocolVersion"], params["capabilities"], params["clientInfo"]
        plain = (
            message["method"] == "initialize"
            and type(request_id) in (int, str)
            and isinstance(version, str)
            and isinstance(capabilities, dict)
            and isinstance(client["name"], str)
            and isinstance(client["version"], str)
            and abs(request_id if isinstance(request_id, int) else 0) < 2**63
        )
        if not plain:
            return None
        asked, extended = "elicitation" in capabilities, "extensions" in capabilities
        handshake = Handshake(negotiate(version), asked, client["name"], client["version"], extended=extended)
        answer = f'{{"id":{_write_json(request_id)},"jsonrpc":"2.0","result":{_write_json(server_result(handshake.version))}}}\n'
    except (ValueError, KeyError, TypeError, RecursionError, StopIteration, ImportError, AttributeError, SystemError):
        return None  # the dispatcher knows what to say to it
    return handshake, answer.encode()


def _read_json(line: bytes) -> "Any":
    """By the part of `json` that is written in C; the rest of it needs regular expressions, half of what a start may take.

    Python 3.11 looks for its error among what is loaded: without `json`, what is malformed is a `SystemError`.
    """
    from _json import make_scanner

    text = line.strip(b" \t\r\n").decode()
    scanner: Any = make_scanner  # by its stub it wants to be given a scanner
    value, end = scanner(_Strict)(text, 0)
    if end != len(text):
        raise ValueError("more than one value")
    return value


class _Strict:
    """How `_json` is to read. It calls none of the hooks that are None."""

    strict = True
    object_hook = object_pairs_hook = array_hook = parse_constant = None
    parse_float, parse_int = float, int


def _write_json(value: "str | int | Result") -> str:
    from _json import encode_basestring_ascii as quote

    match value:
        case str():
            return quote(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            return "{" + ",".join(f"{quote(name)}:{_write_json(inner)}" for name, inner in value.items()) + "}"
