"""Updates of items in JSON, as streams over HTTP have them."""

from collections.abc import Mapping

import msgspec

from understudy.engine.handle import Handle
from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.records import Entry
from understudy.servers.items.codec import ItemCodec
from understudy.servers.items.shapes import Update

_encode = msgspec.json.Encoder().encode


class ItemLines:
    """A `StreamCodec` of items."""

    def __init__(self, handle: Handle) -> None:
        self.codec = ItemCodec(handle)

    def note(self, entry: Entry) -> None:
        self.codec.note(entry)

    def note_given(self, turn: str, given: Mapping[str, int]) -> None:
        self.codec.note_given(turn, given.get("t", 0), max(given.get("r", 0), given.get("w", 0)))

    def lines(self, live: LiveEntry) -> tuple[bytes, ...]:
        return tuple(_encode(update) for update in self.codec.updates(live))

    def delta(self, live: LiveDelta) -> bytes:
        update = self.codec.growth(live)
        return b"" if update is None else _encode(update)

    def aside(self, line: bytes) -> bytes:
        return b""

    def failed(self, reason: str) -> bytes:
        return _encode(Update(seq=0, ended=reason))
