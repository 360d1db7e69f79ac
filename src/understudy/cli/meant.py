"""Which conversation a command means: by its id, or the one that was active last in this folder."""

import os
from argparse import Namespace

from understudy.cli.parsing import wrong_usage
from understudy.errors import BadRequest
from understudy.protocol.ids import ConversationId
from understudy.store.log import Store
from understudy.store.lookup import find_id, newest_id


def settle_words(options: Namespace, command: str, after: str | None = None) -> None:
    """With --last no id is given, so the first word is what else the command takes (`after`). Ends the process on wrong usage."""
    if options.last and options.id is not None:
        if after is None or getattr(options, after) is not None:
            wrong_usage(f"{command}: give an id or --last, not both")
        setattr(options, after, options.id)
        options.id = None
    if not options.last and options.id is None:
        wrong_usage(f"{command}: which conversation? Give its id, or --last for the newest one of this folder")


async def find_meant(store: Store, options: Namespace) -> ConversationId:
    """Raises `UnknownConversation` or `BadRequest`."""
    if not options.last:
        return await find_id(store, options.id)
    found = await newest_id(store, os.getcwd())
    if found is None:
        raise BadRequest(f"no conversation has worked in {os.getcwd()} yet; `understudy conversations` lists those there are")
    return found
