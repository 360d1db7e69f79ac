"""ACP for one editor on standard input and output."""

from collections.abc import Sequence
from typing import Any

from understudy.servers import line_door
from understudy.servers.acp.dispatcher import Dispatcher


def run(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""
    return line_door.run("ACP", "acp", Dispatcher, cli)
