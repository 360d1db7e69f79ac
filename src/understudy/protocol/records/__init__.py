"""What the log of a conversation holds, in order. Everything else (history, events, status) is a fold over these.

Wire events are projected from records in `servers`; nothing here knows a wire.
"""

import msgspec

from understudy.protocol.records.calls import *  # noqa: F403
from understudy.protocol.records.calls import CallRecord
from understudy.protocol.records.files import *  # noqa: F403
from understudy.protocol.records.files import FileRecord
from understudy.protocol.records.questions import *  # noqa: F403
from understudy.protocol.records.questions import QuestionRecord
from understudy.protocol.records.turns import *  # noqa: F403
from understudy.protocol.records.turns import TurnRecord

Record = CallRecord | FileRecord | QuestionRecord | TurnRecord


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record in its place. `turn` is the submission id its events carry; `parent` the record it follows on its path."""

    seq: int
    parent: int
    turn: str
    at: float  # seconds since the epoch
    record: Record
