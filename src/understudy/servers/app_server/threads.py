"""Methods for threads: start, resume, fork, list, read, archive, rename and compact."""

from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from understudy.config.model import Config
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.errors import BadRequest, ConfigError, ConversationBusy, Damaged
from understudy.protocol.ids import ConversationId
from understudy.protocol.items import Message
from understudy.protocol.ops import Archive, Delete, Resume
from understudy.protocol.records import Opened, Overrides, UserMessage
from understudy.servers.app_server import params
from understudy.servers.app_server.app_peer import AppPeer, ThreadViewer, read_thread_id
from understudy.servers.app_server.settings import config_of, thread_overrides
from understudy.servers.app_server.thread_shape import (
    NOT_LOADED,
    Log,
    last_cursor,
    listed_thread,
    opened_thread,
    page_of,
    read_log,
    status_of,
    thread_object,
)
from understudy.servers.app_server.wire import Json
from understudy.servers.failures import InvalidParams, InvalidRequest
from understudy.servers.stdio.line_door import LineAnswer

DEFAULT_PAGE = 25
LARGEST_PAGE = 100
FIRST_RECORDS = 8  # first records of a conversation; the first message is among them
READ_AT_ONCE = 100  # rows, in search of those that pass a filter


async def start(client: AppPeer, given: Raw | None) -> LineAnswer:
    asked = params.read(params.StartThread, given)
    chosen = thread_overrides(asked, ephemeral=asked.ephemeral)
    handle = await client.engine.create(client.caller, replace(chosen, include_plan_tool=True))  # as clients expect
    await handle.durable()
    return _loaded(client, handle, await read_log(handle), with_turns=False)


async def resume(client: AppPeer, given: Raw | None) -> LineAnswer:
    """A turn that a crash cut off is settled: if it waits for an answer, it asks again."""
    asked = params.read(params.ResumeThread, given)
    handle = await client.find(asked.thread_id)
    durable = Durable()
    try:
        await handle.submit(Resume(), durable=durable)
        await durable  # so that a turn that was cut off is shown as such
    except ConversationBusy:
        pass  # another process runs its turn; it is watched from here
    async with client.histories:
        return _resumed(client, handle, await read_log(handle), asked)


def _resumed(client: AppPeer, handle: Handle, log: Log, asked: params.ResumeThread) -> LineAnswer:
    chosen, with_turns = thread_overrides(asked), not asked.exclude_turns
    before = client.threads.get(handle.id)
    if before is None or before.over:
        return _loaded(client, handle, log, chosen, with_turns=with_turns, resumed=True)
    chosen_before = before.chosen
    before.choose(chosen)
    try:
        opened = _opened(client, handle, log, before.chosen, with_turns=with_turns)
    except BaseException:
        before.chosen = chosen_before  # invalid choices are not kept for the next turn
        raise
    return LineAnswer({**opened, **_cursors(log)}, lambda: _tell_usage(before))


def _cursors(log: Log) -> Json:
    """The first cursors for reading the history page by page."""
    return {
        "initialTurnsPage": None,
        "turnsBackwardsCursor": last_cursor(log.turns()),
        "itemsBackwardsCursor": last_cursor(log.items()),
    }


async def fork(client: AppPeer, given: Raw | None) -> LineAnswer:
    asked = params.read(params.ForkThread, given)
    source = await client.find(asked.thread_id)
    turn = None if asked.last_turn_id is None else await _number_of(client, source, asked.last_turn_id)
    chosen, with_turns = thread_overrides(asked), not asked.exclude_turns
    config_of(client.engine, source, None if chosen == Overrides() else chosen)  # raises before there is a fork
    kept = False if asked.ephemeral else None
    handle = await client.engine.fork(client.caller, source.id, turn=turn, kept=kept)
    async with client.histories:
        return _loaded(client, handle, await read_log(handle), chosen, with_turns=with_turns)


async def _number_of(client: AppPeer, handle: Handle, turn_id: str) -> str:
    async with client.histories:
        known_turns = (await read_log(handle)).past.turn_ids
    for number, known in known_turns.items():
        if known == turn_id:
            return number
    raise InvalidParams(f"Invalid params: there is no turn {turn_id} in thread {handle.id}")


async def loaded(client: AppPeer, thread_id: str) -> ThreadViewer:
    """Raises `InvalidRequest` for a thread that was neither started nor resumed here."""
    conversation_id = read_thread_id(thread_id)
    viewer = client.threads.get(conversation_id)
    if viewer is not None and not viewer.over:
        await client.in_order(conversation_id)
        if not viewer.over:
            return viewer
    handle = await client.find(thread_id)
    if conversation_id in client.lost:
        return await _follow_again(client, handle)
    raise InvalidRequest(f"thread not found: {conversation_id}\nIt is not loaded here: call thread/resume first.")


async def _follow_again(client: AppPeer, handle: Handle) -> ThreadViewer:
    """Follow a thread again whose viewer was lost by a failed write, from the log's present end."""
    async with client.reopening:
        known = client.threads.get(handle.id)
        if known is not None and not known.over:
            return known
        log = await read_log(handle)
        viewer = ThreadViewer(client, handle, log.past, log.past.last_seq)
        viewer.chosen = client.lost.pop(handle.id, None)
        viewer.go_live()
        viewer.tell([log.past.status()])
        return viewer


def _loaded(
    client: AppPeer, handle: Handle, log: Log, chosen: Overrides | None = None, *, with_turns: bool, resumed: bool = False
) -> LineAnswer:
    """Follow the thread from here on. What has happened since the log was read is told after the answer."""
    past = log.past
    viewer = ThreadViewer(client, handle, past, past.last_seq)
    viewer.chosen = None if chosen == Overrides() else chosen
    viewer.hold()
    result = _opened(client, handle, log, viewer.chosen, with_turns=with_turns)
    if resumed:
        result |= _cursors(log)
    viewer.go_live()

    def then() -> None:
        if resumed:
            viewer.tell_first([past.status()])
        else:
            thread: Json = {**result["thread"], "turns": []}
            viewer.tell_first([("thread/started", {"thread": thread})])
        viewer.release()
        _tell_usage(viewer)

    return LineAnswer(result, then)


def _tell_usage(viewer: ThreadViewer) -> None:
    usage, last = viewer.projection.usage, viewer.projection.last_turn
    if usage is not None and last is not None:
        viewer.tell([viewer.projection.token_usage(last, viewer.projection.last_usage or usage)])


def _opened(client: AppPeer, handle: Handle, log: Log, chosen: Overrides | None, *, with_turns: bool) -> Json:
    config = config_of(client.engine, handle, chosen)
    return opened_thread(_thread(client, handle, log, config, with_turns=with_turns), config)


def _thread(client: AppPeer, handle: Handle, log: Log, config: Config | None = None, *, with_turns: bool = False) -> Json:
    past, facts = log.past, handle.facts
    if config is None:
        try:
            config = config_of(client.engine, handle)
        except ConfigError:  # for example its folder is gone: the history can still be shown
            pass
    return thread_object(
        handle.id,
        cwd=facts.cwd if config is None else str(config.cwd),
        model=facts.model if config is None else config.model,
        provider=past.provider if config is None else config.model_provider,
        effort=None if config is None else config.model_reasoning_effort,
        status=past.status_object(),
        created_at=past.created_at,
        updated_at=past.updated_at,
        preview=past.preview,
        name=past.name,
        forked_from=past.forked_from,
        ephemeral=config is not None and config.history_persistence == "none",
        originator=client.name,
        thread_source=past.thread_source,
        turns=log.turns() if with_turns else (),
    )


async def read(client: AppPeer, given: Raw | None) -> Json:
    asked = params.read(params.ReadThread, given)
    handle = await client.find(asked.thread_id)
    async with client.histories:
        return {"thread": await _stored_thread(client, handle, with_turns=bool(asked.include_turns))}


async def _stored_thread(client: AppPeer, handle: Handle, *, with_turns: bool = False) -> Json:
    log = await read_log(handle)
    thread = _thread(client, handle, log, with_turns=with_turns)
    if handle.id not in client.threads and log.past.turn is None:
        thread["status"] = NOT_LOADED
    return thread


async def list_threads(client: AppPeer, given: Raw | None) -> Json:
    asked = params.read(params.ListThreads, given)
    limit = _limit(asked.limit)
    folders = None if asked.cwd is None else [asked.cwd] if isinstance(asked.cwd, str) else asked.cwd
    term = (asked.search_term or "").lower()
    rows: list[Json] = []
    cursor = asked.cursor
    while True:
        wanted = min(READ_AT_ONCE, limit - len(rows))
        page = await client.engine.list(client.caller, wanted, cursor, archived=bool(asked.archived))
        for listed in page.rows:
            summary = listed.summary
            if summary.message_count == 0:  # editors start a thread for every window; codex keeps none without a message
                continue
            if (folders is not None and summary.cwd not in folders) or term not in summary.title.lower():
                continue
            begun = await _beginning(client, listed.conversation_id)
            if begun is None or (asked.model_providers and begun.provider not in asked.model_providers):
                continue
            standing = await client.engine.standing_of(listed)
            status = status_of(standing.status, loaded=listed.conversation_id in client.threads)
            rows.append(listed_thread(standing.listed, status, begun.provider, begun.message))
        cursor = page.next_cursor
        if cursor is None or len(rows) >= limit:
            return {"data": rows, "nextCursor": cursor, "backwardsCursor": None}


class _Begun(NamedTuple):
    provider: str = ""
    message: Message | None = None  # the first


async def _beginning(client: AppPeer, conversation_id: ConversationId) -> _Begun | None:
    """None for a conversation that is not kept: it is not listed."""
    try:
        first = await client.engine.log.read(conversation_id, 0, FIRST_RECORDS)
    except Damaged:  # opening it reports the error
        return _Begun()
    opened = first[0].record if first else None
    if not isinstance(opened, Opened):
        return None
    return _Begun(opened.provider, next((entry.record.message for entry in first if isinstance(entry.record, UserMessage)), None))


async def loaded_list(client: AppPeer, given: Raw | None) -> Json:
    params.read(params.ListPage, given)
    return {"data": list(client.threads), "nextCursor": None}


async def turns_list(client: AppPeer, given: Raw | None) -> Json:
    """Newest first unless asked otherwise, as the protocol says."""
    asked = params.read(params.ListTurns, given)
    handle = await client.find(asked.thread_id)
    async with client.histories:
        turns = (await read_log(handle)).turns()
    if asked.items_view == "notLoaded":
        nothing: Json = {"items": [], "itemsView": "notLoaded"}
        turns = [turn | nothing for turn in turns]
    return page_of(turns, asked.cursor, _limit(asked.limit), newest_first=asked.sort_direction != "asc")


async def items_list(client: AppPeer, given: Raw | None) -> Json:
    """Oldest first unless asked otherwise."""
    asked = params.read(params.ListItems, given)
    if isinstance(asked.cursor, dict):
        raise InvalidParams("Invalid params: `cursor` is to be a cursor of an earlier answer")
    handle = await client.find(asked.thread_id)
    async with client.histories:
        rows = (await read_log(handle)).items(asked.turn_id)
    return page_of(rows, asked.cursor, _limit(asked.limit), newest_first=asked.sort_direction == "desc")


def _limit(limit: int | None) -> int:
    if limit is not None and limit < 0:
        raise InvalidParams("Invalid params: `limit` is to be a number above 0")
    return min(limit or DEFAULT_PAGE, LARGEST_PAGE)


async def rename(client: AppPeer, given: Raw | None) -> Json:
    """`thread/name/updated` reports it to everybody who has loaded the thread."""
    asked = params.read(params.NameThread, given)
    handle = await client.find(asked.thread_id)
    await handle.rename(asked.name)
    return {}


async def archive(client: AppPeer, given: Raw | None) -> LineAnswer:
    handle = await client.find(params.read(params.OneThread, given).thread_id)
    await handle.submit(Archive())
    return LineAnswer({}, lambda: _put_away(client, handle, "thread/archived"))


def _put_away(client: AppPeer, handle: Handle, method: str, *, was_loaded: bool = False) -> None:
    if client.unload(handle.id) or was_loaded:
        client.notify("thread/status/changed", {"threadId": handle.id, "status": NOT_LOADED})
    client.notify(method, {"threadId": handle.id})


async def unarchive(client: AppPeer, given: Raw | None) -> LineAnswer:
    handle = await client.find(params.read(params.OneThread, given).thread_id)
    await handle.submit(Archive(archived=False))
    thread = await _stored_thread(client, handle)
    return LineAnswer({"thread": thread}, lambda: client.notify("thread/unarchived", {"threadId": handle.id}))


async def delete(client: AppPeer, given: Raw | None) -> LineAnswer:
    handle = await client.find(params.read(params.OneThread, given).thread_id)
    loaded = client.threads.get(handle.id)
    if loaded is not None:
        loaded.is_deleted = True  # by its own client, which need not be told that nothing more comes
    try:
        await handle.submit(Delete())
    except BaseException:
        if loaded is not None:
            loaded.is_deleted = False
        raise
    return LineAnswer({}, lambda: _put_away(client, handle, "thread/deleted", was_loaded=loaded is not None))


async def unsubscribe(client: AppPeer, given: Raw | None) -> Json:
    thread_id: ConversationId = read_thread_id(params.read(params.OneThread, given).thread_id)
    return {"status": "unsubscribed" if client.unload(thread_id) else "notLoaded"}


async def compact(client: AppPeer, given: Raw | None) -> LineAnswer:
    viewer = await loaded(client, params.read(params.OneThread, given).thread_id)
    viewer.hold()
    try:
        await viewer.handle.compact()
    except BadRequest as error:
        viewer.release()
        raise InvalidRequest(str(error)) from None
    except BaseException:
        viewer.release()
        raise
    return LineAnswer({}, viewer.release)
