"""Answers `initialize` before the server itself is imported, which takes five times as long: clients wait for it when they start.

Whatever else comes first is left to the dispatcher.
"""

import json
import os

from understudy.servers.mcp.handshake import Handshake, negotiate, server_result

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
        message = json.loads(line.decode(), parse_constant=_refuse_constant)
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
        answer = {"id": request_id, "jsonrpc": "2.0", "result": server_result(handshake.version)}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # the dispatcher knows what to say to it
    return handshake, json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def _refuse_constant(name: str) -> "Any":
    raise ValueError(f"{name} is not JSON")
