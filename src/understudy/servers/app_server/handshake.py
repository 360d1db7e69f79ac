"""`initialize` of the app server, where it was not answered before the server was loaded."""

from msgspec import Raw

from understudy.servers.app_server import params
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.introduction import introduce
from understudy.servers.app_server.wire import Json
from understudy.servers.failures import InvalidRequest


async def initialize(client: AppPeer, given: Raw | None) -> Json:
    if client.initialized:
        raise InvalidRequest("Already initialized")
    asked = params.read(params.Initialize, given)
    who, can = asked.client_info, asked.capabilities
    opted_out = (can.opt_out_notification_methods if can is not None else None) or ()
    said = introduce(who.name, who.version, str(client.engine.home))
    client.meet(who.name, frozenset(opted_out))
    return dict(said)
