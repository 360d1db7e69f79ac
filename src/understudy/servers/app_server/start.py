"""The start of `understudy app-server`: `initialize` is answered first, and everything else is loaded after that."""

from understudy.servers.app_server.early_initialize import answer_early
from understudy.servers.mcp.start import refuse
from understudy.servers.stdio_start import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def serve(cli: "Sequence[tuple[str, Any]]" = ()) -> int:
    """For one client on standard input and output, until the input ends or a signal comes. The exit code."""
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

    gc.disable()  # nothing of what is imported is ever garbage
    from understudy.servers.app_server.stdio import run

    gc.enable()
    return run(early, cli)
