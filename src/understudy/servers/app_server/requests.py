"""A request of a client of the app server: what its handler returns, and what is done once the answer is out."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from understudy.servers.app_server.client import Client


class Answer(msgspec.Struct, frozen=True):
    """`then` is done right after the answer was sent, whatever becomes of it: notifications that belong behind it."""

    result: Any
    then: Callable[[], None] | None = None


Handler = Callable[[Client, Raw | None], Awaitable[Any]]
"""Serves a request: returns its result (or an `Answer`), or raises what the client is to be told."""
