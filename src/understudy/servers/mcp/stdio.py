"""MCP for one client on standard input and output."""

import asyncio
import gc
from collections.abc import Sequence
from functools import partial
from typing import Any

from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL, by_door
from understudy.servers import pipes
from understudy.servers.mcp.dispatcher import Dispatcher
from understudy.servers.mcp.handshake import EarlyInput
from understudy.servers.pipes import PipeSink, read_message
from understudy.servers.process.process import Ending, run_server

LAST_WORDS_SECONDS = 0.3
LONGEST_FIRST = 4096  # bytes of a line that may overtake others
NO_GARBAGE_SECONDS = 1.0  # a first turn still imports modules: two garbage collections in it took 4 ms of 100


def run(early: EarlyInput, cli: Sequence[tuple[str, Any]]) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""
    return run_server("MCP on standard input and output", partial(_serve, early, cli))


async def _serve(early: EarlyInput, cli: Sequence[tuple[str, Any]], ending: Ending) -> int:
    engine = Engine(cli=cli)
    loop = asyncio.get_running_loop()
    loop.call_later(NO_GARBAGE_SECONDS, gc.enable)
    sink = PipeSink(loop)
    dispatcher = Dispatcher(engine, by_door(LOCAL, "mcp-stdio"), sink, early.handshake, modern=True)
    await pipes.open_output(sink, ending)
    await pipes.open_input(
        lambda line: dispatcher.receive(read_message(line)),
        sink,
        ending,
        already_read=early.unanswered,
        at_end=early.ended,
        goes_first=partial(_goes_first, dispatcher),
    )
    code = await ending.wait()
    await engine.close()
    dispatcher.close()
    sink.flush()
    await sink.taken(LAST_WORDS_SECONDS)  # a client that still reads gets what is left
    return code


def _goes_first(dispatcher: Dispatcher, line: bytes) -> bool:
    may = len(line) < LONGEST_FIRST and (b"ping" in line or b"cancelled" in line)
    return may and dispatcher.goes_first(read_message(line))
