"""`understudy resume`: runs one more turn of a conversation in the terminal."""

import asyncio
import signal
import sys
from argparse import Namespace
from contextlib import suppress

from understudy.cli.settings import read_overrides
from understudy.cli.stored import find_meant, settle_words
from understudy.cli.tell.viewing import JsonViewer, PersonViewer, TerminalViewer
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
from understudy.errors import BadRequest, ConversationBusy
from understudy.protocol.callers import LOCAL
from understudy.protocol.items import InputText, Message
from understudy.protocol.ops import Resume
from understudy.protocol.records import Overrides
from understudy.servers.process.log_lines import log_warnings
from understudy.servers.process.process import hide_memory

COMPACT = "/compact"


def run(options: Namespace) -> int:
    settle_words(options, options.command, after="prompt")
    log_warnings()
    hide_memory()  # the environment contains keys, and commands may run outside the sandbox
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if prompt is not None and not prompt.strip():
        raise BadRequest("there is nothing to say: the prompt is empty")
    return asyncio.run(_go_on(options, prompt))


async def _go_on(options: Namespace, prompt: str | None) -> int:
    flags = dict(read_overrides(options))
    engine = Engine()
    try:
        handle = await engine.find(LOCAL, await find_meant(engine.log, options))
        can_ask = options.prompt != "-" and sys.stdin.isatty()
        viewer: TerminalViewer = (JsonViewer if options.json else PersonViewer)(handle, can_ask=can_ask)
        viewer.following.go_live()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, viewer.interrupt)
        if prompt is None:
            await _take_up(engine, handle, viewer)
        elif prompt.strip() == COMPACT:
            await _compact(handle, viewer)
        else:
            chosen = Overrides(model=options.model, config=flags or None) if options.model or flags else None
            await handle.submit(handle.message(Message("user", (InputText(prompt),)), chosen), viewer.following)
        return await viewer.exit_code
    finally:
        await engine.close()


async def _compact(handle: Handle, viewer: TerminalViewer) -> None:
    """Have the model summarize the past, in a turn of its own or in the running one."""
    compacting = await handle.compact()
    turn = compacting.turn or handle.facts.turn
    if turn is None:
        raise BadRequest(f"another process is at work in {handle.id} and was asked for the summary")
    viewer.following.follow_turn(turn)


async def _take_up(engine: Engine, handle: Handle, viewer: TerminalViewer) -> None:
    """Continue the turn that waits for an answer, or watch the one that another process runs."""
    turn = handle.facts.turn
    if turn is None:
        raise BadRequest(f'nothing is under way in {handle.id}; say something: understudy resume {handle.id} "…"')
    if handle.facts.questions and not viewer.can_answer:
        raise BadRequest("a question waits for an answer, and standard input is not a terminal where it could be given")
    so_far = await engine.log.read(handle.id)
    viewer.tell_so_far([entry for entry in so_far if entry.turn == turn and entry.seq <= viewer.following.cursor])
    viewer.following.follow_turn(turn)
    with suppress(ConversationBusy):  # another process runs it; we watch, and pass answers to it
        await handle.submit(Resume())
    viewer.following.put_open_questions()
