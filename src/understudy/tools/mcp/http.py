"""Reaches a server by its address: streamable HTTP, with the user's headers and a limit on what is read."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from understudy.tools.mcp.login import stored_login
from understudy.tools.mcp.reading import MOST_LINE, readable

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0  # calls have a limit of their own; this ends a stream that nobody else ends
UNAUTHORIZED = 401
_PACKING = "content-encoding"
_UNPACKED = {"accept-encoding": "identity"}  # a few compressed bytes may become gigabytes


class Address:
    """A server at an address, anywhere. `why_ended` says what it answered last."""

    def __init__(self, url: str, headers: Mapping[str, str], name: str, state_dir: Path) -> None:
        """Raises `ConfigError` if others can read the credentials."""
        self._url = url
        self._headers = headers
        self._name = name
        self._status = 0
        self._login = None if _says_who(headers) else stored_login(state_dir, url)

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any]:
        for name in ("mcp", "client", "httpx2", "httpcore2"):  # their log messages may contain addresses, and nobody reads them
            logging.getLogger(name).setLevel(logging.CRITICAL)
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        bounded = _Bounded(httpx2.AsyncHTTPTransport(), self._note_status)
        async with (
            httpx2.AsyncClient(
                headers={**_UNPACKED, **self._headers}, timeout=timeout, transport=bounded, auth=self._login
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=MOST_LINE) as streams,
        ):
            yield streams

    def secrets(self) -> list[str]:
        """Credentials from a login, which a server could repeat in its messages."""
        tokens = None if self._login is None else self._login.context.current_tokens
        return [] if tokens is None else [tokens.access_token, *([tokens.refresh_token] if tokens.refresh_token else [])]

    def why_ended(self) -> str:
        if self._status == UNAUTHORIZED and not _says_who(self._headers):
            again = "" if self._login is None else " again"
            return f"it wants a login{again} (HTTP status {UNAUTHORIZED}): understudy mcp login {self._name}"
        return f"HTTP status {self._status}" if self._status >= 400 else "the connection could not be made, or was lost"

    def _note_status(self, status: int) -> None:
        self._status = status


def _says_who(headers: Mapping[str, str]) -> bool:
    return any(name.lower() == "authorization" for name in headers)


class _Bounded(httpx2.AsyncBaseTransport):
    """Limits each message to the length allowed for a program's. Rewrites messages that the SDK could not parse."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, on_status: Callable[[int], None]) -> None:
        self._inner = inner
        self._on_status = on_status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if request.method == "POST":
            self._on_status(response.status_code)
        if response.headers.get(_PACKING, "identity") != "identity":
            await response.aclose()
            raise httpx2.ReadError(f"the answer is packed ({_PACKING}), which was not asked for")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _ReadableEvents(response.stream)
        else:
            response.stream = _ReadableAnswer(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ReadableAnswer(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for chunk in self._inner:
            body += chunk
            if len(body) > MOST_LINE:
                raise httpx2.ReadError(f"the answer has more than {MOST_LINE >> 20} MiB")
        yield readable(bytes(body)) if body.lstrip().startswith(b"{") else bytes(body)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ReadableEvents(httpx2.AsyncByteStream):
    """Passes on whole lines as they come."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        async for chunk in self._inner:
            begun += chunk
            end = max(begun.rfind(b"\n", len(begun) - len(chunk)), begun.rfind(b"\r", len(begun) - len(chunk))) + 1
            if end:
                whole = bytes(begun[:end])
                del begun[:end]
                yield b"".join(map(_readable_line, whole.splitlines(keepends=True)))
            elif len(begun) > MOST_LINE:
                raise httpx2.ReadError(f"an event has more than {MOST_LINE >> 20} MiB")
        yield bytes(begun)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _readable_line(line: bytes) -> bytes:
    text = line.removeprefix(b"data:").strip()
    if not line.startswith(b"data:") or not text.startswith(b"{"):
        return line
    mended = readable(text)
    return line if mended is text else b"data: " + mended + line[len(line.rstrip(b"\r\n")) :]
