"""A request of an editor: what serves it."""

from collections.abc import Awaitable, Callable
from typing import Any

from understudy.protocol.jsonrpc import Request
from understudy.servers.acp.editor_peer import EditorPeer

Handler = Callable[[EditorPeer, Request], Awaitable[Any]]
"""Serves a request: returns its result (or a `LineAnswer`), or raises what the client is to be told."""
