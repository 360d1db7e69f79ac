"""A request of a client of the app server: what serves it."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from understudy.servers.app_server.app_peer import AppPeer

Handler = Callable[[AppPeer, Raw | None], Awaitable[Any]]
"""Serves a request: returns its result (or a `LineAnswer`), or raises what the client is to be told."""
