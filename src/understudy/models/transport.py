"""What a model's requests go through: HTTP as it is, HTTP that is written down, or a file that is played."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from understudy.net import HttpFailure, Url


class BegunAnswer(Protocol):
    """An answer whose head has come; see `http.response`."""

    @property
    def status(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def read(self, seconds: float) -> bytes: ...
    async def read_text(self, seconds: float, limit: int) -> str: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Transport(Protocol):
    async def post(self, url: Url, headers: Sequence[tuple[str, str]], body: Sequence[bytes], *, seconds: float) -> BegunAnswer:
        """Raises HttpFailure."""
        ...


class ReadsText:
    """`read_text`, for exchanges that are not read from a connection of their own."""

    async def read(self, seconds: float) -> bytes:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    async def read_text(self, seconds: float, limit: int) -> str:
        pieces: list[bytes] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            while sum(map(len, pieces)) < limit and (piece := await self.read(max(deadline - loop.time(), 0.0))):
                pieces.append(piece)
        except HttpFailure:
            self.abort()
        else:
            self.finish()
        return b"".join(pieces)[:limit].decode("utf-8", "replace")
