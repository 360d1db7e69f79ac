"""`understudy resume`: one more turn of a conversation, from the terminal."""

import asyncio
import logging
import signal
import sys
from argparse import Namespace

from understudy.cli.settings import read_overrides
from understudy.cli.viewing import JsonViewer, PersonViewer, Viewer
from understudy.engine.conversation import Conversation
from understudy.engine.engine import Engine
from understudy.errors import BadRequest, ConversationBusy
from understudy.protocol.items import InputText, Message
from understudy.protocol.records import Overrides
from understudy.store.answered import answered
from understudy.store.lookup import find_id


def run(options: Namespace) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="understudy: %(message)s")
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if prompt is not None and not prompt.strip():
        raise BadRequest("there is nothing to say: the prompt is empty")
    return asyncio.run(_go_on(options, prompt))


async def _go_on(options: Namespace, prompt: str | None) -> int:
    flags = dict(read_overrides(options))
    engine = Engine()
    try:
        conversation = engine.find(answered(find_id(engine.log, options.id)))
        can_ask = options.prompt != "-" and sys.stdin.isatty()
        viewer: Viewer = (JsonViewer if options.json else PersonViewer)(conversation, can_ask=can_ask)
        conversation.tail.broadcast.followers.append(viewer)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, viewer.interrupt)
        if prompt is None:
            _take_up(conversation, viewer)
        else:
            chosen = Overrides(model=options.model, config=flags or None) if options.model or flags else None
            viewer.follow(engine.send(conversation, Message("user", (InputText(prompt),)), chosen))
        engine.watch()  # the turn may be another process's
        return await viewer.ended
    finally:
        await engine.close()


def _take_up(conversation: Conversation, viewer: Viewer) -> None:
    """Go on with the turn that waits for an answer, or watch the one that runs in another process."""
    turn = conversation.state.turn
    if turn is None:
        raise BadRequest(f'nothing is under way in {conversation.id}; say something: understudy resume {conversation.id} "…"')
    if conversation.state.questions and not viewer.can_answer:
        raise BadRequest("a question waits for an answer, and standard input is not a terminal where it could be given")
    conversation.callers.append(viewer)  # should its process end, it goes on here
    try:
        conversation.resume()
    except ConversationBusy:
        pass  # watched from here; answers go there
    viewer.follow_turn(turn)
