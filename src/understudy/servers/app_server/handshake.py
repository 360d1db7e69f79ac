"""`initialize` of the app server."""

import platform
import sys

from msgspec import Raw

from understudy import __version__
from understudy.servers.app_server import params
from understudy.servers.app_server.app_peer import AppPeer
from understudy.servers.app_server.wire import Json
from understudy.servers.codex_version import CODEX_VERSION
from understudy.servers.failures import InvalidRequest


async def initialize(client: AppPeer, given: Raw | None) -> Json:
    if client.initialized:
        raise InvalidRequest("Already initialized")
    asked = params.read(params.Initialize, given)
    who, can = asked.client_info, asked.capabilities
    opted_out = (can.opt_out_notification_methods if can is not None else None) or ()
    home = str(client.engine.home)
    client.meet(who.name, frozenset(opted_out))
    return {
        "userAgent": user_agent(who.name or "client", who.version),
        "codexHome": home,
        "platformFamily": "unix",
        "platformOs": "macos" if sys.platform == "darwin" else sys.platform,
    }


def user_agent(name: str, version: str) -> str:
    """Clients read the version behind the first `/` as that of codex: it says whose protocol this is."""
    system = f"{platform.system()} {platform.release()}; {platform.machine()}"
    return f"{name}/{CODEX_VERSION} ({system}) understudy/{__version__} ({name}; {version})"
