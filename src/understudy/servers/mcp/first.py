"""The first moments of a server on stdio: answers `initialize` before anything is imported that takes time, `json` included.

As soon as anything else comes, what was read goes to the real server.
"""

import os

from understudy.servers.mcp.handshake import Handshake, Result, negotiate, server_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_MOST_CHUNKS = 64  # a greeting is no longer than this; the server bounds the rest


class Beginning:
    __slots__ = ("ended", "handshake", "read")

    def __init__(self, handshake: Handshake | None, read: bytes, *, ended: bool) -> None:
        self.handshake = handshake
        self.read = read  # what came after it, or all of it
        self.ended = ended  # the input is over already


def answer_first(read_fd: int = 0, write_fd: int = 1) -> Beginning:
    """Wait for the first line. If it is a plain `initialize`, answer it; else leave it to the server."""
    chunks: list[bytes] = []  # joined once: a line may be very long
    while not chunks or (b"\n" not in chunks[-1] and len(chunks) < _MOST_CHUNKS):
        chunk = os.read(read_fd, 65536)
        if not chunk:
            return Beginning(None, b"".join(chunks), ended=True)
        chunks.append(chunk)
    buffer = b"".join(chunks)
    line, ended, rest = buffer.partition(b"\n")
    answered = _answer(line) if ended else None
    if answered is None:
        return Beginning(None, buffer, ended=False)
    handshake, answer = answered
    view = memoryview(answer)
    while view:
        view = view[os.write(write_fd, view) :]
    return Beginning(handshake, rest, ended=False)


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
        return None  # the server knows what to say to it
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


def serve(cli: "Sequence[tuple[str, Any]]" = ()) -> int:
    """An MCP server on standard input and output, until the input ends or a signal comes. The exit code."""
    try:
        _end_quietly_on_signals()
        closed = _missing_stream()
        if closed is not None:
            return _refuse(f"standard {closed} is closed, but an MCP client talks to this server through it")
        return _serve(cli)
    except (KeyboardInterrupt, _Ended):
        return 0


def _serve(cli: "Sequence[tuple[str, Any]]") -> int:
    try:
        beginning = answer_first()
    except BrokenPipeError:
        return 0
    except OSError as error:
        return _refuse(f"standard input or output failed: {error.strerror}")
    if beginning.ended and not beginning.read.strip():
        return 0
    from understudy.servers.memory import hide_memory

    hide_memory()
    import gc

    gc.disable()  # nothing of what is imported is ever garbage
    from understudy.servers.mcp.stdio import run

    gc.freeze()
    gc.set_threshold(10_000, 5, 5)  # what a turn leaves behind is mostly freed without it
    gc.enable()

    return run(beginning, cli)


class _Ended(BaseException):
    """A signal asked us to end before the event loop could listen for it."""


def _end_quietly_on_signals() -> None:
    """Until the event loop does: a client may end us while we are still being loaded. By the part of `signal` in C."""
    signals: Any = __import__("_signal")  # which has no stub

    def end(number: int, frame: object) -> None:
        raise _Ended

    for number in (signals.SIGTERM, signals.SIGHUP):
        signals.signal(number, end)


def _missing_stream() -> str | None:
    """Which of standard input and output is not open: what is opened next would be taken for it."""
    for fd, name in enumerate(("input", "output", "error")):
        try:
            os.fstat(fd)
        except OSError:
            if name != "error":
                return name
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: messages go nowhere
    return None


def _refuse(reason: str) -> int:
    os.write(2, f"understudy: {reason}\n".encode())
    return 1
