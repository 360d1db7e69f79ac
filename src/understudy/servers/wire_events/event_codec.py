"""What a codec is: it turns records, which the log has, into events, which clients are shown.

Each wire has one: `seed_events.py` and `modern_events.py`. Which of them a client gets is decided in `presentation.py`; how
an event is put into a notification is decided by whoever sends it (`mcp/call.py`, `mcp/stream_viewer.py`).
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
    """One wire's events. What it makes of an entry is kept with that entry, so that all who watch share the work."""

    plain_method: bool  # whether an event is also sent under its own name
    needs_past: bool  # whether it has to be told of the entries of a turn that come before those it is shown

    def note(self, entry: Entry) -> None:
        """An entry of the past that is not shown."""
        ...

    def events(self, live: LiveEntry) -> tuple[Encoded, ...]:
        """The events of an entry, of which there may be none."""
        ...

    def delta(self, live: LiveDelta) -> Encoded: ...
