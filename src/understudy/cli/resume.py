"""`understudy resume`: one more turn of a conversation, from the terminal."""

import asyncio
import logging
import signal
import sys
from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.cli.viewing import JsonViewer, PersonViewer, Viewer
from understudy.engine.engine import Engine
from understudy.errors import BadRequest
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides
from understudy.store.lookup import find_id

INTERRUPTED = 130


def run(options: Namespace) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="understudy: %(message)s")
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise BadRequest("there is nothing to say: the prompt is empty")
    return asyncio.run(_go_on(options, prompt))


async def _go_on(options: Namespace, prompt: str) -> int:
    flags = dict(read_overrides(options))
    engine = Engine()
    try:
        conversation = engine.find(find_id(engine.log.path, options.id))
        can_ask = options.prompt != "-" and sys.stdin.isatty()
        viewer: Viewer = (JsonViewer if options.json else PersonViewer)(conversation, can_ask=can_ask)
        conversation.feed.followers.append(viewer)
        chosen = Overrides(model=options.model, config=flags or None) if options.model or flags else None
        viewer.follow(engine.send(conversation, Message("user", (InputText(prompt),)), chosen))
        engine.watch()  # the turn may be another process's
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, viewer.interrupt)
        return await viewer.ended
    finally:
        await engine.close()
