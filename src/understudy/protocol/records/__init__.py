"""The ordered contents of a conversation's log. Everything else (history, events, status) is computed from these records.

`servers` derives wire events from records; nothing here knows a wire.
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
    """A record with its place in the log. `turn` is the submission id of its events; `parent` the previous record on its path."""

    seq: int
    parent: int
    turn: str
    at: float  # seconds since the epoch
    record: Record
