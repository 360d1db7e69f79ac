"""The start of `understudy app-server`: `initialize` is answered first, and everything else is loaded after that."""

import os

from understudy.servers.app_server.introduction import Handshake, introduce
from understudy.servers.mcp.handshake import EarlyInput, answer_first, is_request_id
from understudy.servers.stdio.start import refuse, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def answer_early(read_fd: int = 0, write_fd: int = 1) -> EarlyInput:
    """The result's `handshake` is a `Handshake` if a plain `initialize` came first."""
    return answer_first(_answer, read_fd, write_fd)


def _answer(message: "Any") -> "tuple[Handshake, dict[str, Any]] | None":
    request_id, params, home = message["id"], message["params"], _plain_home()
    client: Any = params["clientInfo"]
    capabilities: Any = params.get("capabilities")
    can: Any = {} if capabilities is None else capabilities
    opted_out: Any = can.get("optOutNotificationMethods")
    name, version = client["name"], client.get("version", "0")
    plain = (
        message["method"] == "initialize"
        and is_request_id(request_id)
        and _may_be(opted_out, list)
        and all(map(_is_text, (name, version, *(opted_out or ()))))
        and _may_be(client.get("title"), str)
        and _may_be(can.get("experimentalApi"), bool)
    )
    if home is None or not plain:
        return None
    return Handshake(name, frozenset(opted_out or ())), {"id": request_id, "result": introduce(name, version, home)}


def _is_text(value: object) -> bool:
    if isinstance(value, str):
        value.encode()  # raises ValueError for half a surrogate pair
        return True
    return False


def _may_be(value: object, kind: type) -> bool:
    return value is None or isinstance(value, kind)


def _plain_home() -> str | None:
    """The folder that `config.home.find_home` would find; None if that needs a closer look or has an error to report."""
    named, home = os.environ.get("CODEX_HOME", ""), os.environ.get("HOME", "")
    if named:
        try:
            found = os.path.realpath(named, strict=True)
        except OSError:
            return None
        return found if _is_text(named) and _is_text(found) and os.path.isdir(found) else None
    plain = os.path.isabs(home) and home == os.path.normpath(home) and _is_text(home)
    return os.path.join(home, ".codex") if plain else None


def serve(cli: "Sequence[tuple[str, Any]]" = ()) -> int:
    """Serve one client on standard input and output until the input ends or a signal comes. Returns the exit code."""
    return start(lambda: _serve(cli))


def _serve(cli: "Sequence[tuple[str, Any]]") -> int:
    try:
        early = answer_early()
    except BrokenPipeError:
        return 0
    except OSError as error:
        return refuse(f"standard input or output failed: {error.strerror}")
    if early.said_nothing:
        return 0
    import gc

    gc.disable()  # nothing that is imported is ever garbage
    from understudy.servers.app_server.dispatcher import run

    gc.enable()
    return run(early, cli)
