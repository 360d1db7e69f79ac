"""A request of an editor: what its handler returns, and what is done once the answer is out."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from understudy.protocol.jsonrpc import Request
from understudy.servers.acp.client import Client


class Answer(msgspec.Struct, frozen=True):
    """`then` is done right after the answer was sent: updates that belong behind it."""

    result: Any
    then: Callable[[], None] | None = None


Handler = Callable[[Client, Request], Awaitable[Any]]
"""Serves a request: returns its result (or an `Answer`), or raises what the client is to be told."""
