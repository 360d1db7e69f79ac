"""The app server for one client on standard input and output: `initialize`, the table of methods, and the answer to each
message.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Raw

from understudy.engine.engine import Engine
from understudy.protocol.callers import Caller
from understudy.protocol.jsonrpc import Request, RequestId
from understudy.servers.app_server import params, surroundings, threads, turns
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.introduction import Handshake, introduce
from understudy.servers.app_server.wire import Json, error_line, result_line
from understudy.servers.failures import InvalidRequest, MethodNotFound
from understudy.servers.mcp.handshake import EarlyInput
from understudy.servers.sink import Sink
from understudy.servers.stdio import line_door
from understudy.servers.stdio.line_door import LineDispatcher

Handler = Callable[[AppPeer, Raw | None], Awaitable[Any]]
"""Serves a request: returns its result (or a `LineAnswer`), or raises what the client should be told."""


async def initialize(client: AppPeer, given: Raw | None) -> Json:
    if client.initialized:
        raise InvalidRequest("Already initialized")
    asked = params.read(params.Initialize, given)
    who, can = asked.client_info, asked.capabilities
    opted_out = (can.opt_out_notification_methods if can is not None else None) or ()
    said = introduce(who.name, who.version, str(client.engine.home))
    client.meet(who.name, frozenset(opted_out))
    return dict(said)


METHODS: dict[str, Handler] = {
    "thread/start": threads.start,
    "thread/resume": threads.resume,
    "thread/fork": threads.fork,
    "thread/list": threads.list_threads,
    "thread/loaded/list": threads.loaded_list,
    "thread/read": threads.read,
    "thread/turns/list": threads.turns_list,
    "thread/items/list": threads.items_list,
    "thread/name/set": threads.rename,
    "thread/archive": threads.archive,
    "thread/unarchive": threads.unarchive,
    "thread/delete": threads.delete,
    "thread/unsubscribe": threads.unsubscribe,
    "thread/compact/start": threads.compact,
    "thread/settings/update": turns.update_settings,
    "turn/start": turns.start,
    "turn/steer": turns.steer,
    "turn/interrupt": turns.interrupt,
    "model/list": surroundings.list_models,
    "config/read": surroundings.read_config,
    "account/read": surroundings.read_account,
    "account/login/start": surroundings.log_in,
    "account/logout": surroundings.log_out,
    "getAuthStatus": surroundings.auth_status,
    "permissionProfile/list": surroundings.list_profiles,
    "collaborationMode/list": surroundings.list_modes,
    "skills/list": surroundings.list_skills,
    "hooks/list": surroundings.list_hooks,
}


class Dispatcher(LineDispatcher):
    def __init__(self, engine: Engine, caller: Caller, sink: Sink, met: Handshake | None = None) -> None:
        """`met`: the data of `initialize`, if that was already answered."""
        self._client = AppPeer(engine, caller, sink)
        if met is not None:
            self._client.meet(met.name, met.opted_out)
        super().__init__(engine.tasks, self._client, sink)

    async def serve(self, request: Request) -> Any:
        return await self._handler(request.method)(self._client, request.params)

    def _handler(self, method: str) -> Handler:
        if method == "initialize":
            return initialize
        if not self._client.initialized:
            raise InvalidRequest("Not initialized")
        handler = METHODS.get(method)
        if handler is None:
            raise MethodNotFound(method)
        return handler

    def result_line(self, request_id: RequestId, result: Any) -> bytes:
        return result_line(request_id, result)

    def error_line(self, request_id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
        return error_line(request_id, code, message, data)


def run(early: EarlyInput, cli: Sequence[tuple[str, Any]] = ()) -> int:
    """Serve until the input ends or a signal comes. Returns the exit code."""

    def make(engine: Engine, caller: Caller, sink: Sink) -> Dispatcher:
        return Dispatcher(engine, caller, sink, early.handshake)

    return line_door.run("the app server's protocol", "app-server", make, cli, early)
