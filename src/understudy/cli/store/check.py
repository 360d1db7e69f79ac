"""`understudy store check`: whether the configured store can be used, and whether what it holds is whole."""

import time
from argparse import Namespace

from understudy.cli.stored import home, open_stored
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.home import state_dir
from understudy.store.opening import store_exists

BROKEN = 1
_SAMPLE = 20_000  # records that are read unless all are to be


def run(options: Namespace) -> int:
    if not store_exists(home()):
        print(f"there are no conversations in {one_line(str(state_dir(home())))} yet")
        return 0
    return wait_for(lambda: _check(full=options.full))


async def _check(*, full: bool) -> int:
    async with open_stored() as log:
        count = await log.count()
        asked = time.monotonic()
        damage = await log.check()
        print(
            f"{one_line(log.place)}: {count} conversation{'' if count == 1 else 's'}; it answers in "
            f"{(time.monotonic() - asked) * 1000:.0f} ms"
        )
        if damage != "ok":
            print(one_line(damage))
        verified = await log.verify(None if full else _SAMPLE)
        for problem in verified.problems:
            print(one_line(problem))
        rest = "" if verified.records >= verified.total else f" of {verified.total}; `--full` reads all"
        print(f"{verified.records} records read{rest}: {f'damage in {verified.damaged}' if verified.damaged else 'no damage'}")
        return BROKEN if verified.damaged or damage != "ok" else 0
