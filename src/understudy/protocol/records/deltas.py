"""What is shown as it comes and never in the log, because the finished item is."""

from typing import Literal

import msgspec


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """More of the answer being written. Deltas are not in the log: the finished item is."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    text: str
    raw: bool = False


class OutputDelta(msgspec.Struct, frozen=True, gc=False):
    call_id: str
    stream: Literal["stdout", "stderr"]
    chunk: bytes


Delta = TextDelta | ReasoningDelta | OutputDelta
