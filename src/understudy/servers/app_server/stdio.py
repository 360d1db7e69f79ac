"""The app server for one client on standard input and output."""

from collections.abc import Sequence
from typing import Any

from understudy.servers import line_door
from understudy.servers.app_server.dispatcher import Dispatcher


def run(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""
    return line_door.run("the app server's protocol", "app-server", Dispatcher, cli)
