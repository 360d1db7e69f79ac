"""What a codec is: it turns records of the log into events for clients.

Each wire has one: `seed_events.py` and `modern_events.py`. `presentation.py` chooses the codec for a client; the senders
(`mcp/call.py`, `mcp/stream_viewer.py`) put its events into notifications.
"""

from typing import Protocol

import msgspec

from understudy.engine.log.broadcast import LiveDelta, LiveEntry
from understudy.protocol.records import Entry


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """One event: its type, which is also its method, and its `msg` as bytes."""

    type: bytes
    msg: bytes


class EventCodec(Protocol):
    """One wire's events. The result for an entry is cached in that entry, so that all viewers share the work."""

    plain_method: bool  # whether an event is also sent under its own name
    needs_past: bool  # whether it must be shown the earlier entries of a turn with `note`

    def note(self, entry: Entry) -> None:
        """Process an earlier entry that is not shown."""
        ...

    def events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        """The events of an entry; there may be none."""
        ...

    def delta(self, live: LiveDelta) -> Encoded: ...
