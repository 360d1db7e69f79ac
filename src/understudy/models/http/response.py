"""An answer whose head has arrived and whose body is read as it comes."""

import asyncio
from typing import TYPE_CHECKING

from understudy.models.http.connection import Connection
from understudy.models.http.failures import BadAnswer, HttpFailure

if TYPE_CHECKING:
    from understudy.models.http.unpacking import Unpacker


class HttpResponse:
    def __init__(self, connection: Connection) -> None:
        self.status = connection.answer.status
        self.reason = connection.answer.reason
        self.headers = connection.answer.headers
        self._connection: Connection | None = connection
        coding = self.headers.get("content-encoding", "identity").lower()
        self._unpacker = _unpacker(coding) if coding not in ("", "identity") else None

    async def read(self, seconds: float) -> bytes:
        """More of the body, `b""` at its end. Raises HttpFailure."""
        if self._connection is None:
            return b""
        if self._unpacker is None:
            return await self._connection.read(seconds)
        while True:
            if data := self._unpacker.rest:
                await asyncio.sleep(0)  # a little of it may be a great deal unpacked: others are served meanwhile
            else:
                data = await self._connection.read(seconds)
            if not data:
                return b""
            if unpacked := self._unpacker.unpack(data):
                return unpacked

    async def read_text(self, seconds: float, limit: int) -> str:
        """The body as text, cut at `limit` bytes; what came of it within `seconds`, or before it broke off."""
        pieces: list[bytes] = []
        size = 0
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while size < limit and (piece := await self.read(max(deadline - loop.time(), 0.0))):
                pieces.append(piece)
                size += len(piece)
        except HttpFailure:
            self.abort()
        else:
            self.finish()
        return b"".join(pieces)[:limit].decode("utf-8", "replace")

    def finish(self) -> None:
        """No more is wanted; the connection may serve again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()

    def abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


def _unpacker(coding: str) -> "Unpacker":
    """For servers that compress although we ask them not to."""
    if coding in ("gzip", "x-gzip", "deflate"):
        from understudy.models.http.unpacking import Unpacker

        return Unpacker()
    raise BadAnswer(f"the server's answer is encoded as {coding[:40]!r}, which was not asked for")
