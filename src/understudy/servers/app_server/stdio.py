"""The app server for one client on standard input and output."""

from collections.abc import Sequence
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.servers import line_door
from understudy.servers.app_server.dispatcher import Dispatcher
from understudy.servers.mcp.early_initialize import EarlyInput
from understudy.servers.sink import Sink


def run(early: EarlyInput, cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""

    def make(engine: Engine, caller: Caller, sink: Sink) -> Dispatcher:
        return Dispatcher(engine, caller, sink, early.handshake)

    return line_door.run("the app server's protocol", "app-server", make, cli, early)
