"""The store for commands: opened for one task, written to, waited for; and finds the conversation that a command means."""

import asyncio
import os
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from understudy.cli.parsing import wrong_usage
from understudy.config.home import find_home
from understudy.engine.log.durable import until_durable
from understudy.errors import BadRequest, StoreError, UnknownConversation
from understudy.protocol.ids import ConversationId
from understudy.store.log import LATEST, Committed, GoingOn, Listed, Status, Store
from understudy.store.lookup import find_id, newest_id
from understudy.store.opening import open_store

DISK_SECONDS = 30.0


def home() -> Path:
    """Raises `ConfigError` if CODEX_HOME is not a folder."""
    return find_home(os.environ)


@asynccontextmanager
async def open_stored() -> AsyncGenerator[Store]:
    """Raises `StoreError`."""
    log = open_store(home(), asyncio.get_running_loop())
    try:
        yield log
        await asyncio.sleep(0)  # a Ctrl-C that came while SQLite was working takes effect here
    finally:
        log.close()


async def find(log: Store, spelled: str) -> Listed:
    """By id, or the beginning of one. Raises `UnknownConversation` or `BadRequest`."""
    listed = await log.find(await find_id(log, spelled))
    if listed is None:
        raise UnknownConversation(f"no conversation {spelled}")
    return listed


async def status_of(log: Store, listed: Listed) -> Status:
    """The status now: if its process is gone, a turn does not run, whatever its last record says."""
    status = listed.summary.status
    if status == "idle" or await log.holder(listed.conversation_id) is not None:
        return status
    return "waiting" if listed.summary.pending else "idle"


async def going_on_in(log: Store, listed: Listed) -> GoingOn:
    """A turn, and commands that outlive their turns, if they run now: those of a process that is gone do not."""
    going_on = GoingOn(listed.summary.turn, listed.summary.running)
    return going_on if going_on and await log.holder(listed.conversation_id) is not None else GoingOn()


async def write(submit: Callable[[Committed], None]) -> None:
    """Queue a write and wait until it is on disk. Raises the error if it fails."""
    try:
        async with asyncio.timeout(DISK_SECONDS):
            await until_durable(submit)
    except TimeoutError:
        raise StoreError(f"conversation store: the disk did not answer within {DISK_SECONDS:.0f} seconds") from None


def rfc3339(seconds: float) -> str:
    seconds = min(max(seconds, 0.0), LATEST)  # the clock may have been wrong
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def settle_words(options: Namespace, command: str, after: str | None = None) -> None:
    """With --last no id is given, so the first word is the command's other argument (`after`). Ends the process on wrong usage."""
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
