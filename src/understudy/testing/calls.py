"""A request to the server that is under way, how it can fail, and what is in the results of `codex` and `codex-reply`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Protocol


class _Answering(Protocol):
    """What a call needs of the server that it went to."""

    async def answer(self, request_id: int | str) -> Any: ...

    def find_response(self, request_id: int | str) -> dict[str, Any] | None: ...


class ServerDied(AssertionError):
    """The server is gone, and what was waited for will not come. Says its exit code and what it wrote to stderr."""


class RpcError(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')} {error.get('message')}")
        self.code = error.get("code")
        self.message = error.get("message")
        self.data = error.get("data")


class Call:
    """A request under way; awaiting it gives the result."""

    def __init__(self, request_id: int | str, method: str, server: _Answering) -> None:
        self.id = request_id
        self.method = method
        self._server = server

    def __await__(self) -> Generator[Any, None, Any]:
        return self._server.answer(self.id).__await__()

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._server.find_response(self.id) is not None


def text_of(result: Mapping[str, Any]) -> str:
    """The agent's answer."""
    return str(result["content"][0]["text"])


def thread_of(result: Mapping[str, Any]) -> str:
    """The id with which `codex-reply` continues the conversation."""
    return str(result["structuredContent"]["threadId"])
