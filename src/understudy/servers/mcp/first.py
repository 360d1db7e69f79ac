"""The first moments of a server on stdio: answers `initialize` before the heavy modules are imported.

Standard library only, and little of it. As soon as anything else comes, what was read goes to the real server.
"""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from understudy.servers.mcp.hello import Hello, negotiate, server_result


class Beginning(NamedTuple):
    hello: Hello | None
    read: bytes  # what came after it, or all of it
    ended: bool  # the input is over already


def answer_first(read_fd: int = 0, write_fd: int = 1) -> Beginning:
    """Wait for the first line. If it is a plain `initialize`, answer it; else leave it to the server."""
    chunks: list[bytes] = []  # joined once: a line may be very long
    while not chunks or b"\n" not in chunks[-1]:
        chunk = os.read(read_fd, 65536)
        if not chunk:
            return Beginning(None, b"".join(chunks), ended=True)
        chunks.append(chunk)
    buffer = b"".join(chunks)
    line, _, rest = buffer.partition(b"\n")
    answered = _answer(line)
    if answered is None:
        return Beginning(None, buffer, ended=False)
    hello, answer = answered
    view = memoryview(answer)
    while view:
        view = view[os.write(write_fd, view) :]
    return Beginning(hello, rest, ended=False)


def _answer(line: bytes) -> tuple[Hello, bytes] | None:
    try:
        message = json.loads(line)
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
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not plain:
        return None
    hello = Hello(negotiate(version), "elicitation" in capabilities)
    answer = {"id": request_id, "jsonrpc": "2.0", "result": server_result(hello.version)}
    return hello, json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def serve(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """An MCP server on standard input and output, until the input ends. The exit code."""
    try:
        beginning = answer_first()
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
    if beginning.ended and not beginning.read.strip():
        return 0
    import gc

    gc.disable()  # nothing of what is imported is ever garbage
    from understudy.servers.mcp.stdio import run

    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # what a turn leaves behind is mostly freed without it
    gc.enable()

    return run(beginning, cli)
