"""`understudy search`: searches what was said and run in all conversations."""

import asyncio
import json
import os
import sys
from argparse import Namespace
from typing import Any

from understudy.cli.parsing import wrong_usage
from understudy.cli.stored import home, open_stored, rfc3339
from understudy.cli.waiting import wait_for
from understudy.engine.services.searching import mask_of
from understudy.errors import BadRequest
from understudy.store.opening import store_exists
from understudy.store.search.asked import Found, Hit, Wanted, read_since
from understudy.store.search.words import read_question

UNTIL_TOLD = 2.0  # seconds after which we say that the index is being built
MOST_PATIENT = 86_400.0


def run(options: Namespace) -> int:
    try:
        wanted = _wanted(options)
    except BadRequest as error:
        wrong_usage(str(error))
    found = wait_for(lambda: _find(wanted)) if store_exists(home()) else Found((), None)
    if options.json:
        print(json.dumps({"hits": [_as_json(hit) for hit in found.hits], "next": found.next}, indent=2))
    else:
        _print(found)
    return 0


def _wanted(options: Namespace) -> Wanted:
    """Raises `BadRequest`."""
    wanted = Wanted(
        words=" ".join(options.words),
        folder=None if options.folder is None else os.path.abspath(options.folder),
        since=None if options.since is None else read_since(options.since),
        role=options.role,
        limit=options.limit,
        cursor=options.cursor,
    )
    read_question(wanted.words)
    return wanted


async def _find(wanted: Wanted) -> Found:
    async with open_stored() as log:
        finding = asyncio.create_task(log.search.find(wanted, mask_of(os.environ), MOST_PATIENT))
        done, _ = await asyncio.wait([finding], timeout=UNTIL_TOLD)
        if not done:
            print("understudy: making the search index, which takes a while the first time …", file=sys.stderr)
        return await finding


def _as_json(hit: Hit) -> dict[str, Any]:
    return {
        "conversation_id": hit.conversation_id,
        "seq": hit.seq,
        "time": rfc3339(hit.at),
        "role": hit.role,
        "snippet": hit.snippet,
    }


def _print(found: Found) -> None:
    from rich.text import Text

    from understudy.cli.tell.terminal import one_line, open_console

    if not found.hits:
        print("Nothing found.", file=sys.stderr)
    console = open_console()
    for hit in found.hits:
        head = Text(f"{hit.conversation_id}  {rfc3339(hit.at)}  {hit.role}", "dim")
        console.print(head, soft_wrap=True)
        console.print(Text(f"    {one_line(hit.snippet)}"), soft_wrap=True)
    if found.next is not None:
        print(f"There may be more: add --cursor {found.next}", file=sys.stderr)
