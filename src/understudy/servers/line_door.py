"""A front door for one client that speaks JSON-RPC line by line on standard input and output."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL, Caller, by_door
from understudy.servers import pipes
from understudy.servers.line_dispatcher import LineDispatcher
from understudy.servers.lines import read_message
from understudy.servers.mcp.early_initialize import EarlyInput
from understudy.servers.memory import hide_memory
from understudy.servers.pipe_sink import PipeSink
from understudy.servers.process import Ending, run_server
from understudy.servers.sink import Sink

LAST_WORDS_SECONDS = 0.3


MakeDispatcher = Callable[[Engine, Caller, Sink], LineDispatcher]


def run(what: str, door: str, make: MakeDispatcher, cli: Sequence[tuple[str, Any]] = (), early: EarlyInput | None = None) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code. `door` is what decisions are recorded with."""
    hide_memory()
    early = early or EarlyInput(None, b"", ended=False)
    return run_server(f"{what} on standard input and output", partial(_serve, door, make, cli, early))


async def _serve(door: str, make: MakeDispatcher, cli: Sequence[tuple[str, Any]], early: EarlyInput, ending: Ending) -> int:
    engine = Engine(cli=cli)
    sink = PipeSink(asyncio.get_running_loop())
    dispatcher = make(engine, by_door(LOCAL, door), sink)
    await pipes.open_output(sink, ending)
    await pipes.open_input(
        lambda line: dispatcher.receive(read_message(line)), sink, ending, already_read=early.unanswered, at_end=early.ended
    )
    code = await ending.wait()
    await engine.close()
    dispatcher.close()
    sink.flush()
    await sink.taken(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code
