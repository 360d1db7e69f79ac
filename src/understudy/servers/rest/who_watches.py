"""Telling those who watch a conversation who else does: soon after somebody has come or left, and then not again for a moment.

When a server comes back, thousands of streams do: telling each of them of each of the others would take all memory there is.
"""

import asyncio

import msgspec

from understudy.engine.engine import Engine
from understudy.protocol.ids import ConversationId
from understudy.servers.rest.event_stream import EventStream

REST_SECONDS = 0.1  # between two rounds in one conversation, and longer for many:
SECONDS_FOR_EACH = 0.001
AT_ONCE = 16  # streams that are told for a share of a step
_encode = msgspec.json.Encoder().encode


class _Round(msgspec.Struct):
    """Of one conversation."""

    streams: dict[EventStream, None]
    changed: bool = False  # since they were told
    under_way: bool = False


class WhoWatches:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._rounds: dict[ConversationId, _Round] = {}
        self._ended = False

    def come(self, stream: EventStream) -> None:
        self._rounds.setdefault(stream.handle.id, _Round({})).streams[stream] = None
        self._tell_soon(stream.handle.id)

    def leave(self, stream: EventStream) -> None:
        one = self._rounds.get(stream.handle.id)
        if one is not None and one.streams.pop(stream, stream) is None:
            self._tell_soon(stream.handle.id)

    def end(self) -> None:
        """Nobody is told anything more."""
        self._ended = True
        self._rounds.clear()

    def _tell_soon(self, conversation_id: ConversationId) -> None:
        one = self._rounds.get(conversation_id)
        if one is None or self._ended:
            return
        one.changed = True
        if not one.under_way:
            one.under_way = True
            self._loop.call_soon(self._begin_round, conversation_id)

    def _begin_round(self, conversation_id: ConversationId) -> None:
        one = self._rounds.get(conversation_id)
        if one is None:
            return
        if not one.streams:
            del self._rounds[conversation_id]
        elif one.changed:
            one.changed = False
            self._engine.tasks.run(self._tell_all(conversation_id, one))
        else:
            one.under_way = False

    async def _tell_all(self, conversation_id: ConversationId, one: _Round) -> None:
        line = _encode({"msg": {"type": "viewers", "viewers": self._engine.viewers_of(conversation_id)}})
        for number, stream in enumerate(tuple(one.streams)):
            if number % AT_ONCE == 0:
                await self._engine.pace.take(1)
            if stream in one.streams and not stream.sink.congested:
                stream.tell(line)
        if not self._ended:
            self._loop.call_later(REST_SECONDS + SECONDS_FOR_EACH * len(one.streams), self._begin_round, conversation_id)
