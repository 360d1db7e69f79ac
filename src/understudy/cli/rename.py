"""`understudy rename`: a title for a conversation."""

import asyncio
from argparse import Namespace

from understudy.cli.terminal import one_line
from understudy.engine.engine import Engine
from understudy.protocol.callers import LOCAL
from understudy.servers.log_lines import log_warnings
from understudy.store.lookup import find_id


def run(options: Namespace) -> int:
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
