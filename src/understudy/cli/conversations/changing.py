"""`understudy rename` and `understudy undo`: a title for a conversation, and the patches of a turn taken back."""

import asyncio
import sys
from argparse import Namespace

from understudy.cli.stored import find_meant, settle_words
from understudy.cli.tell.terminal import one_line
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.protocol.records import UndoEnded
from understudy.servers.process.log_lines import log_warnings
from understudy.store.lookup import find_id


def run_rename(options: Namespace) -> int:
    log_warnings()
    print(asyncio.run(_rename(options.id, options.title)))
    return 0


async def _rename(spelled: str, title: str) -> str:
    engine = Engine()
    try:
        handle = await engine.find(LOCAL, await find_id(engine.log, spelled))
        return f"{handle.id} is now called {one_line(await handle.rename(title))}"
    finally:
        await engine.close()


def run_undo(options: Namespace) -> int:
    """0 where all of it was taken back."""
    settle_words(options, "undo", after="turn")
    log_warnings()
    ended = asyncio.run(_undo(options))
    if ended.problem:
        print(f"understudy: {ended.problem}", file=sys.stderr)
        return 1
    print(f"undid turn {ended.undone}" if ended.complete else f"undid turn {ended.undone} in part")
    for path in ended.taken_back:
        print(f"  taken back  {one_line(path)}")
    for path, why in ended.left.items():
        print(f"  left alone  {one_line(path)}: {one_line(why)}")
    if not ended.taken_back and not ended.left:
        print("  its files were as before already")
    return 0 if ended.complete else 1


async def _undo(options: Namespace) -> UndoEnded:
    engine = Engine()
    try:
        handle = await engine.find(LOCAL, await find_meant(engine.log, options))
        return await handle.undo(options.turn or "")
    finally:
        await engine.close()
