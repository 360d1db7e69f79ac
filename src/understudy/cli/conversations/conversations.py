"""Commands that change conversations: `understudy conversations` lists, archives and deletes them; also `rename` and `undo`."""

import asyncio
import json
import sys
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from textwrap import indent
from typing import Any

from understudy.cli.stored import find, find_meant, going_on_in, home, open_stored, rfc3339, settle_words, status_of, write
from understudy.cli.tell.listing import print_list
from understudy.cli.tell.terminal import one_line
from understudy.cli.waiting import wait_for
from understudy.config.home import state_dir
from understudy.engine.engine import Engine
from understudy.errors import BadRequest, ConversationBusy
from understudy.protocol.callers import LOCAL
from understudy.protocol.ids import ConversationId
from understudy.protocol.ops import Archive, Delete
from understudy.protocol.records import UndoEnded
from understudy.sandbox.cell import trees
from understudy.servers.process.log_lines import log_warnings
from understudy.store.elsewhere import Elsewhere
from understudy.store.log import Claim, GoingOn, Holder, Listed, Status, Store
from understudy.store.lookup import find_id
from understudy.store.opening import store_exists

PAGE = 200
ENDING_SECONDS = 10.0  # time for another process to end the commands for which it keeps a conversation

Row = tuple[Listed, Status, GoingOn]


def run(options: Namespace) -> int:
    if options.action == "list":
        return _list(options)
    chosen = wait_for(lambda: _find_all(options.ids))
    for listed in {listed.conversation_id: listed for listed in chosen}.values():
        match options.action:
            case "delete":
                _delete(listed, sure=options.yes)
            case action:
                wait_for(lambda listed=listed, action=action: _archive(listed, archived=action == "archive"))
                print(f"{action}d {listed.conversation_id}")
    return 0


async def _find_all(spelled: Sequence[str]) -> list[Listed]:
    async with open_stored() as log:
        return [await find(log, each) for each in spelled]


async def _archive(listed: Listed, *, archived: bool) -> None:
    async with open_stored() as log:
        await write(lambda done: log.archive(listed.conversation_id, archived, done))
        if archived and (await going_on_in(log, listed)).commands:  # the process that has them ends them
            await write(lambda done: log.post(listed.conversation_id, Archive(), done))


# -- the list


def _list(options: Namespace) -> int:
    if options.json:
        return _print_json(options)
    rows: list[Row] = []
    ids: list[ConversationId] = []
    if store_exists(home()):
        rows, ids = wait_for(lambda: _read(options.limit, options.archived))
    if not rows:
        print("No archived conversations." if options.archived else "No conversations yet.", file=sys.stderr)
    else:
        print_list(rows, ids)
    return 0


def _print_json(options: Namespace) -> int:
    """Page by page, however many there are."""
    if store_exists(home()):
        wait_for(lambda: _print_rows(options.limit, options.archived))
    else:
        print("[]")
    return 0


async def _print_rows(limit: int, archived: bool) -> None:
    before = "[\n"
    async with open_stored() as log:
        async for row in _rows(log, limit, archived):
            print(before + indent(json.dumps(_as_json(*row), indent=2), "  "), end="")
            before = ",\n"
    print("[]" if before == "[\n" else "\n]")


async def _read(limit: int, archived: bool) -> tuple[list[Row], list[ConversationId]]:
    async with open_stored() as log:
        return [row async for row in _rows(log, limit, archived)], list(await log.ids())


async def _rows(log: Store, limit: int, archived: bool) -> AsyncIterator[Row]:
    """`limit`: 0 for all."""
    cursor: str | None = None
    left = limit or sys.maxsize
    while left > 0:
        page = await log.list(min(PAGE, left), cursor, archived=archived)
        for listed in page.rows:
            yield listed, await status_of(log, listed), await going_on_in(log, listed)
        left -= len(page.rows)
        cursor = page.next_cursor
        if cursor is None:
            break


def _as_json(listed: Listed, status: Status, going_on: GoingOn) -> dict[str, Any]:
    summary = listed.summary
    return {
        "conversation_id": listed.conversation_id,
        "title": summary.title,
        "created_at": rfc3339(listed.created_at),
        "updated_at": rfc3339(listed.updated_at),
        "status": status,
        "message_count": summary.message_count,
        "cwd": summary.cwd,
        "model": summary.model,
        "pending": list(summary.pending),
        **({"running": going_on.shown()} if going_on else {}),
        **summary.spent(),
        **({"thread_source": summary.thread_source} if summary.thread_source else {}),
        "archived": listed.archived,
    }


# -- deleting


def _delete(listed: Listed, *, sure: bool) -> None:
    if not sure and not _confirmed(listed):
        print(f"kept {listed.conversation_id}")
        return
    wait_for(lambda: _forget(listed))
    folder = state_dir(home()) / "tmp"
    trees.set_aside(str(folder / listed.conversation_id))
    trees.remove_set_aside(str(folder))
    print(f"deleted {listed.conversation_id}")


async def _forget(listed: Listed) -> None:
    async with open_stored() as log:
        claim = await log.claim(listed.conversation_id)
        if isinstance(claim, Elsewhere):
            await _forget_elsewhere(log, listed, claim)
            return
        if isinstance(claim, Holder) and listed.summary.status == "idle" and listed.summary.running:
            claim = await _claim_from_commands(log, listed.conversation_id)
        if isinstance(claim, Holder):
            raise ConversationBusy(f"conversation {listed.conversation_id} has a turn running in another process; wait for its end")
        try:
            await write(lambda done: log.delete(listed.conversation_id, done))
        finally:
            claim.release()


async def _forget_elsewhere(log: Store, listed: Listed, where: Elsewhere) -> None:
    """Its worker does it. Without a worker it is deleted here, unless another process of that host has it. If the worker comes
    back, the database refuses its writes.
    """
    name = listed.conversation_id
    if not where.alive and await log.holder(name) is None:
        await write(lambda done: log.delete(name, done))
        return
    if not where.alive or listed.summary.turn is not None:
        raise ConversationBusy(f"conversation {name} has a turn running on host {where.host}; wait for its end")
    await write(lambda done: log.post(name, Delete(there=True), done))
    give_up = time.monotonic() + ENDING_SECONDS
    while await log.find(name) is not None:
        left = [letter for letter in await log.letters(name) if isinstance(letter.op, Delete)]
        if not left and await log.find(name) is not None:
            raise ConversationBusy(f"conversation {name} has begun a turn on host {where.host}; wait for its end")
        if time.monotonic() > give_up:
            raise ConversationBusy(f"host {where.host} was asked to delete conversation {name}; it has not done so yet")
        await asyncio.sleep(0.05)


async def _claim_from_commands(log: Store, conversation_id: ConversationId) -> Claim | Holder:
    """Another process keeps it only for commands that outlive their turns, so ask it to end them."""
    await write(lambda done: log.post(conversation_id, Delete(), done))
    give_up = time.monotonic() + ENDING_SECONDS
    while (  # noqa: ASYNC110  # nothing tells of it
        isinstance(claim := await log.claim(conversation_id), Holder) and time.monotonic() < give_up
    ):
        await asyncio.sleep(0.02)
    return claim


def _confirmed(listed: Listed) -> bool:
    if not sys.stdin.isatty():
        raise BadRequest("deleting is for good: add --yes where nobody can be asked")
    question = f"Delete {listed.conversation_id} “{one_line(listed.summary.title)}” for good? [y/N] "
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


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
    """Exit code 0 if everything was undone."""
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
