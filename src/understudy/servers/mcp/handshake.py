"""`initialize`: what a client says about itself, and the answer, which is sent before the server itself is imported."""

import json
import os

from understudy import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


NEWEST = "2025-11-25"
MODERN = "2026-07-28"  # the era without a handshake, see `modern.py`
PREFIX = "io.modelcontextprotocol/"  # prefix of the keys in its `_meta`
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST)


Result = dict[str, "str | bool | Result"]


class Handshake:
    """What a client said of itself in `initialize`."""

    __slots__ = ("can_be_asked", "extended", "name", "name_version", "version")

    def __init__(self, version: str, can_be_asked: bool, name: str = "", name_version: str = "", *, extended: bool = False) -> None:
        self.version = version  # the protocol version it asked for
        self.can_be_asked = can_be_asked  # it declared elicitation
        self.name = name  # the name it gives itself
        self.name_version = name_version
        self.extended = extended  # it declared extensions of any kind


def negotiate(asked: str) -> str:
    """The client's version if we speak it, otherwise our newest."""
    return asked if asked in VERSIONS else NEWEST


def is_modern(method: str, params: "Any") -> bool:
    """Whether a request without a preceding handshake belongs to the era without one. `params`: its bytes, or None."""
    return method in ("server/discover", "subscriptions/listen") or (params is not None and PREFIX.encode() in bytes(params))


OURS: "Result" = {"prompts": {}}  # capabilities of ours, beside tools


def server_result(version: str, more: "Mapping[str, Any]" = OURS) -> Result:
    """`more`: capabilities."""
    return {
        "capabilities": {"tools": {"listChanged": True}, **more},
        "protocolVersion": version,
        "serverInfo": server_info(),
    }


def server_info() -> Result:
    return {"name": "understudy", "title": "Understudy", "version": __version__}


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # From the first line as JSON: what it says of the client, and the answer; None if the dispatcher should answer. The dispatcher
    # also answers if this raises because the line is something else.
    Answer = Callable[[Any], tuple[Any, dict[str, Any]] | None]

_MOST_CHUNKS = 64  # no `initialize` is longer than this; the transport limits the rest


class EarlyInput:
    """The standard input that was read before the dispatcher existed."""

    __slots__ = ("ended", "handshake", "unanswered")

    def __init__(self, handshake: "Any", unanswered: bytes, *, ended: bool) -> None:
        self.handshake = handshake  # the data of `initialize`, if that came first and was answered; otherwise None
        self.unanswered = unanswered  # the lines after it, or all lines
        self.ended = ended  # the input is already over

    @property
    def said_nothing(self) -> bool:
        return self.ended and not self.unanswered.strip()


def answer_early(read_fd: int = 0, write_fd: int = 1) -> EarlyInput:
    """Wait for the first line. If it is a plain `initialize` of MCP, answer it; the result's `handshake` is then a `Handshake`."""
    return answer_first(_answer, read_fd, write_fd)


def answer_first(answer: "Answer", read_fd: int = 0, write_fd: int = 1) -> EarlyInput:
    """Like `answer_early`, for the protocol of the given `answer`."""
    chunks: list[bytes] = []  # joined once: a line may be very long
    while not chunks or (b"\n" not in chunks[-1] and len(chunks) < _MOST_CHUNKS):
        chunk = os.read(read_fd, 65536)
        if not chunk:
            return EarlyInput(None, b"".join(chunks), ended=True)
        chunks.append(chunk)
    buffer = b"".join(chunks)
    line, ended, rest = buffer.partition(b"\n")
    answered = _try(answer, line) if ended else None
    if answered is None:
        return EarlyInput(None, buffer, ended=False)
    handshake, said = answered
    view = memoryview(said)
    while view:
        view = view[os.write(write_fd, view) :]
    return EarlyInput(handshake, rest, ended=False)


def _try(answer: "Answer", line: bytes) -> "tuple[Any, bytes] | None":
    try:
        answered = answer(json.loads(line.decode(), parse_constant=_refuse_constant))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # the dispatcher knows what to answer
    if answered is None:
        return None
    handshake, said = answered
    return handshake, json.dumps(said, separators=(",", ":")).encode() + b"\n"


def is_request_id(value: object) -> bool:
    return type(value) is str or (type(value) is int and abs(value) < 2**63)


def _refuse_constant(name: str) -> "Any":
    raise ValueError(f"{name} is not JSON")


def _answer(message: "Any") -> "tuple[Handshake, dict[str, Any]] | None":
    params: Any = message["params"]
    request_id = message["id"]
    version, capabilities, client = params["protocolVersion"], params["capabilities"], params["clientInfo"]
    plain = (
        message["method"] == "initialize"
        and is_request_id(request_id)
        and isinstance(version, str)
        and isinstance(capabilities, dict)
        and isinstance(client["name"], str)
        and isinstance(client["version"], str)
    )
    if not plain:
        return None
    asked, extended = "elicitation" in capabilities, "extensions" in capabilities
    handshake = Handshake(negotiate(version), asked, client["name"], client["version"], extended=extended)
    return handshake, {"id": request_id, "jsonrpc": "2.0", "result": server_result(handshake.version)}
