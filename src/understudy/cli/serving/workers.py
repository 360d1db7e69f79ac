"""`understudy workers`: the hosts on which turns run, and draining one of them."""

import asyncio
import json
import os
from argparse import Namespace
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from understudy.cli.conversations.whole_store import need_driver
from understudy.cli.stored import home, open_stored, rfc3339
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.serve import read_serve
from understudy.errors import BadRequest, ConfigError
from understudy.store.opening import is_file

if TYPE_CHECKING:
    from understudy.store.postgres.hosts import HostRow, Hosts

LOOK_SECONDS = 0.2
NOT_EMPTY = 1


def run(options: Namespace) -> int:
    _need_database()
    return wait_for(lambda: _list(as_json=options.json))


def drain(options: Namespace) -> int:
    _need_database()
    seconds = read_serve(home(), [], {}, os.environ).drain_seconds
    return wait_for(lambda: _drain(options.name, seconds))


def _need_database() -> None:
    """Raises `AgentError`."""
    if is_file(home()):
        raise ConfigError("there are workers only where conversations are in a database: `understudy.store.url` names none")
    need_driver()


@asynccontextmanager
async def _opened() -> "AsyncGenerator[Hosts]":
    async with open_stored() as log:
        from understudy.store.postgres.log import PostgresLog

        assert isinstance(log, PostgresLog)
        yield log.hosts


async def _list(*, as_json: bool) -> int:
    async with _opened() as hosts:
        rows = await hosts.all()
    if as_json:
        print(json.dumps([_as_json(row) for row in rows], indent=2))
    elif not rows:
        print("no worker has served a host yet: `understudy serve --role worker` begins one")
    else:
        _print_table([("NAME", "STATE", "CONVERSATIONS", "WORKSPACES", "SEEN", "ADDRESS"), *map(_as_cells, rows)])
    return 0


def _as_json(row: "HostRow") -> dict[str, str | int]:
    return {
        "name": row.name,
        "address": row.address,
        "seen": rfc3339(row.seen),
        "state": row.state,
        "conversations": row.conversations,
        "workspaces": row.workspaces,
    }


def _as_cells(row: "HostRow") -> tuple[str, ...]:
    return row.name, row.state, str(row.conversations), str(row.workspaces), rfc3339(row.seen), row.address


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print(one_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()))


async def _drain(name: str, seconds: float) -> int:
    async with _opened() as hosts:
        if not await hosts.drain(name):
            raise BadRequest(f"there is no host {name}; `understudy workers` lists those there are")
        loop = asyncio.get_running_loop()
        give_up = loop.time() + seconds
        while True:
            (row,) = await hosts.all(name)
            if row.state == "away" or row.at_work == 0:
                print(f"{name}: nothing runs there any more, and nothing new begins")
                return 0
            if loop.time() >= give_up:
                many = "" if row.at_work == 1 else "s"
                print(f"{name}: after {seconds:g} s, {row.at_work} conversation{many} still at work there")
                return NOT_EMPTY
            await asyncio.sleep(LOOK_SECONDS)
