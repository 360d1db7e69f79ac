"""Methods for sessions: new, load, resume, list, close, delete, settings, prompts and cancelling."""

import asyncio
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from understudy.config.model import Config
from understudy.engine.handle import Handle
from understudy.engine.log.durable import Durable
from understudy.engine.log.facts import path_to
from understudy.errors import ConfigError, ConversationBusy
from understudy.protocol.items import Message
from understudy.protocol.jsonrpc import INTERNAL_ERROR, Request
from understudy.protocol.ops import Delete, Resume
from understudy.protocol.records import Entry, Overrides
from understudy.servers.acp import params
from understudy.servers.acp.commands import with_called
from understudy.servers.acp.content import Json, pointed_at, read_prompt
from understudy.servers.acp.params import McpServer
from understudy.servers.acp.projection import Projection
from understudy.servers.acp.session import EditorPeer, EditorSession, RunningPrompt, read_session_id, update_line
from understudy.servers.acp.settings import config_options, mode_overrides, modes, option_overrides
from understudy.servers.failures import InvalidParams, ProtocolError
from understudy.servers.stdio.line_door import LineAnswer
from understudy.servers.wire_events.presentation import presentation_of

MOST_SERVERS = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")


def server_overrides(servers: Sequence[McpServer]) -> dict[str, Any]:
    """Keys of `Overrides.config`. Raises `InvalidParams`."""
    if len(servers) > MOST_SERVERS:
        raise InvalidParams(f"Invalid params: `mcpServers` has {len(servers)} entries; {MOST_SERVERS} are the most")
    found: dict[str, Any] = {}
    for number, server in enumerate(servers):
        name = _NOT_IN_NAMES.sub("-", server.name).strip("-") or f"server-{number + 1}"
        if f"mcp_servers.{name}" in found:
            raise InvalidParams(f"Invalid params: two entries of `mcpServers` are called {name!r}")
        found[f"mcp_servers.{name}"] = _table(server, f"mcpServers[{number}]")
    return found


def _table(server: McpServer, where: str) -> dict[str, Any]:
    match server.type:
        case None | "stdio":
            if not server.command:
                raise InvalidParams(f"Invalid params: `{where}` has no `command`")
            env = {variable.name: variable.value for variable in server.env or ()}
            return {"command": server.command, "args": list(server.args or ()), "env": env}
        case "http":
            if not server.url:
                raise InvalidParams(f"Invalid params: `{where}` has no `url`")
            return {"url": server.url, "http_headers": {header.name: header.value for header in server.headers or ()}}
        case other:
            raise InvalidParams(f"Invalid params: `{where}` has the type {other!r}; a server is a program (`stdio`) or `http`")


PAGE = 50
READ_AT_ONCE = 256  # records in one step of the event loop, so that others are served in between


async def new(client: EditorPeer, request: Request) -> LineAnswer:
    overrides = replace(_overrides(params.read(params.NewSession, request.params)), include_plan_tool=True)  # editors show plans
    try:
        handle = await client.engine.create(client.caller, overrides)
    except ConfigError as error:
        raise InvalidParams(str(error)) from None
    await handle.durable()
    session = await _open(client, handle)
    return LineAnswer({"sessionId": handle.id, **_settings(session)}, session.release)


async def load(client: EditorPeer, request: Request) -> LineAnswer:
    """Show the whole conversation again, and then answer."""
    return await _open_again(client, params.read(params.LoadSession, request.params), replays=True)


async def resume(client: EditorPeer, request: Request) -> LineAnswer:
    """Like `load`, for an editor that still has the conversation."""
    return await _open_again(client, params.read(params.LoadSession, request.params), replays=False)


async def _open_again(client: EditorPeer, asked: params.LoadSession, *, replays: bool) -> LineAnswer:
    """A turn that a crash cut off is settled: if it waits for an answer, it asks again."""
    overrides = _overrides(asked)
    handle = await client.find(asked.session_id)
    durable = Durable()
    try:
        await handle.submit(Resume(), durable=durable)
        await durable  # so that a turn that was cut off is shown as such
    except ConversationBusy:
        pass  # another process runs its turn; it is watched from here
    chosen = Overrides(cwd=None if overrides.cwd == handle.facts.cwd else overrides.cwd, config=overrides.config)
    if chosen != Overrides():
        try:
            client.engine.configure(handle.with_changes(chosen))
        except ConfigError as error:
            raise InvalidParams(str(error)) from None
    async with client.histories:
        session = await _open(client, handle, chosen, replays=replays)
        return LineAnswer(_settings(session), session.release)


def _overrides(asked: params.NewSession) -> Overrides:
    if not os.path.isabs(asked.cwd):
        raise InvalidParams(f"Invalid params: `cwd` is {asked.cwd[:200]!r}; it has to be an absolute path")
    if asked.additional_directories:
        raise InvalidParams(
            "Invalid params: `additionalDirectories` is not supported here; name them in `sandbox_workspace_write.writable_roots`"
        )
    return Overrides(cwd=os.path.normpath(asked.cwd), config=server_overrides(asked.mcp_servers or ()) or None)


async def _open(client: EditorPeer, handle: Handle, chosen: Overrides | None = None, *, replays: bool = False) -> EditorSession:
    """Follow the conversation from here on. What happens during the read of the log is shown after the answer."""
    hides_reasoning = presentation_of(handle).hides_reasoning
    entries = await _read(handle)
    projection = Projection(hides_reasoning=hides_reasoning)
    for number, entry in enumerate(path_to(entries)):
        updates = projection.entry(entry)
        if not replays:
            continue
        for update in updates:
            client.sink.send(update_line(handle.id, update), None)
            await client.histories.room()
        if number % READ_AT_ONCE == READ_AT_ONCE - 1:
            await asyncio.sleep(0)
    session = EditorSession(client, handle, projection, entries[-1].seq if entries else 0, hides_reasoning=hides_reasoning)
    before = client.sessions.get(handle.id)
    if before is not None:
        session.replaces(before)
    if chosen is not None and chosen != Overrides():
        session.choose(chosen)
    session.go_live()
    return session


async def opened(client: EditorPeer, session_id: str) -> EditorSession:
    """A session that was made or loaded here. If a failed write ended it, it is opened again. Raises `ProtocolError`."""
    conversation_id = read_session_id(session_id)
    if conversation_id in client.lost:
        async with client.reopening:
            if conversation_id in client.lost:
                session = await _open(client, await client.find(session_id), client.lost[conversation_id])
                session.release()
    return client.session(session_id)


async def _read(handle: Handle) -> Sequence[Entry]:
    entries: list[Entry] = []
    while page := await handle.read(entries[-1].seq if entries else 0, READ_AT_ONCE):
        entries += page
        await asyncio.sleep(0)
    return entries


def _settings(session: EditorSession) -> Json:
    try:
        config = session.config()
    except ConfigError:  # for example its folder is gone: the history can still be shown
        return {}
    session.note_settings(config)
    return {"modes": modes(config), "configOptions": config_options(config)}


async def list_sessions(client: EditorPeer, request: Request) -> Json:
    asked = params.read(params.ListSessions, request.params)
    folder = _plain_path(asked.cwd)
    rows: list[Json] = []
    cursor = asked.cursor
    while True:
        page = await client.engine.list(client.caller, PAGE - len(rows), cursor)
        for listed in page.rows:
            summary = listed.summary
            if folder is None or summary.cwd == folder:
                updated = datetime.fromtimestamp(listed.updated_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
                row: Json = {"sessionId": listed.conversation_id, "cwd": summary.cwd, "updatedAt": updated}
                rows.append({**row, "title": summary.title} if summary.title else row)
        cursor = page.next_cursor
        if cursor is None or len(rows) >= PAGE:
            return {"sessions": rows} if cursor is None else {"sessions": rows, "nextCursor": cursor}


def _plain_path(path: str | None) -> str | None:
    return None if path is None else os.path.normpath(path)


async def close(client: EditorPeer, request: Request) -> Json:
    """End what runs and show nothing more of it. The conversation stays in the log."""
    session = await opened(client, params.read(params.OneSession, request.params).session_id)
    await session.cancel()
    if client.sessions.get(session.handle.id) is session:
        del client.sessions[session.handle.id]
    session.stop()
    return {}


async def delete(client: EditorPeer, request: Request) -> Json:
    """Delete the conversation for good."""
    session_id = params.read(params.OneSession, request.params).session_id
    handle = await client.find(session_id)
    session = client.sessions.pop(read_session_id(session_id), None)
    client.lost.pop(handle.id, None)
    if session is not None:
        await session.cancel()
        session.stop()
    await handle.submit(Delete())
    return {}


# -- settings


async def set_mode(client: EditorPeer, request: Request) -> Json:
    """Applies from the next prompt on."""
    asked = params.read(params.SetMode, request.params)
    session = await opened(client, asked.session_id)
    _choose(session, mode_overrides(asked.mode_id, session.projection.sandbox))
    session.tell_settings()
    return {}


async def set_config_option(client: EditorPeer, request: Request) -> Json:
    """Applies from the next prompt on. The answer lists all options."""
    asked = params.read(params.SetConfigOption, request.params)
    session = await opened(client, asked.session_id)
    chosen = option_overrides(session.config(), asked.config_id, asked.value, session.projection.sandbox)
    config = _choose(session, chosen)
    session.tell_mode(config)
    return {"configOptions": config_options(config)}


def _choose(session: EditorSession, chosen: Overrides) -> Config:
    try:
        return session.choose(chosen)
    except ConfigError as error:
        raise InvalidParams(str(error)) from None


CANCELLED: Json = {"stopReason": "cancelled"}


async def prompt(client: EditorPeer, request: Request) -> Json:
    """A prompt during a running turn joins it, and is also answered when the turn ends."""
    asked = params.read(params.Prompt, request.params)
    session = await opened(client, asked.session_id)
    waiting = RunningPrompt(request.id, session.when_shown)
    prompts = session.prompts
    prompts.append(waiting)
    try:
        async with session.sending:
            content = with_called(session, await read_prompt(asked.prompt))
            if waiting.cancelled:
                return CANCELLED
            for path in pointed_at(asked.prompt) if client.gives_texts else ():
                session.handle.unsaved_texts().note_likely(path)
            await _send(session, waiting, Message("user", content))
            if waiting.cancelled:  # cancelled before it was accepted; the prompts after it begin a turn of their own
                await session.cancel_one(waiting)
        ended = await waiting.done
    finally:
        if waiting in prompts:
            prompts.remove(waiting)
    if waiting.cancelled or ended is None or ended.reason == "interrupted":
        return CANCELLED
    if ended.reason == "failed":
        raise ProtocolError(INTERNAL_ERROR, ended.message or "the turn failed", {"kind": "turn_failed"})
    return {"stopReason": "end_turn"}


async def _send(session: EditorSession, waiting: RunningPrompt, message: Message) -> None:
    handle = session.handle
    before, session.chosen = session.chosen, None
    op = handle.message(message, before)
    waiting.message_id = op.message.message_id
    session.projection.own.add(waiting.message_id)
    durable = Durable()
    following = handle.follow(waiting, only_its_turn=True)
    try:
        await handle.submit(op, following, durable)
        waiting.sent = True
        await durable
    except BaseException:
        following.stop()
        session.chosen = session.chosen or before
        raise


def cancel(client: EditorPeer, session_id: str) -> None:
    """A notification: it is ignored for a session that is not open here."""
    with suppress(ProtocolError):
        session = client.session(session_id)
        session.handle.tasks.run(session.cancel())


def cancel_request(client: EditorPeer, request_id: int | str) -> None:
    """Only prompts can be cancelled: other requests are answered soon."""
    for session in client.sessions.values():
        for waiting in [waiting for waiting in session.prompts if waiting.request_id == request_id]:
            session.handle.tasks.run(session.cancel_one(waiting))
