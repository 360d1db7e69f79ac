"""`proto` on standard input and output."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from understudy.engine.engine import Engine
from understudy.errors import AgentError
from understudy.protocol.callers import LOCAL, by_door
from understudy.protocol.records import Overrides
from understudy.servers import pipes
from understudy.servers.lines import MOST_BYTES, OverlongLine
from understudy.servers.memory import hide_memory
from understudy.servers.pipe_sink import PipeSink
from understudy.servers.process import Ending, run_server
from understudy.servers.proto.session import ProtoSession

LAST_WORDS_SECONDS = 0.3
TOO_LONG = f"a line may have at most {MOST_BYTES} bytes"


def run(cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends, `shutdown` is submitted or a signal comes. Returns the exit code."""
    hide_memory()
    return run_server("submissions and events on standard input and output", partial(_serve, cli))


async def _serve(cli: Sequence[tuple[str, Any]], ending: Ending) -> int:
    engine = Engine(cli=cli)
    sink = PipeSink(asyncio.get_running_loop())
    session = ProtoSession(engine, by_door(LOCAL, "proto"), sink, ending)
    await pipes.open_output(sink, ending)
    try:
        await session.begin(Overrides())
    except AgentError as error:  # another `configure_session` may do
        session.tell("0", {"type": "error", "message": str(error)})

    def receive(line: bytes) -> None:
        if isinstance(line, OverlongLine):
            session.tell("", {"type": "error", "message": TOO_LONG})
        else:
            session.receive(line)

    await pipes.open_input(receive, sink, ending)
    code = await ending.wait()
    await engine.close()
    session.close()
    sink.flush()
    await sink.taken(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code
