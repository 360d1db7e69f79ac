"""What a front end asks a worker to begin: it has no folders of its own, so it can pin none."""

from typing import Final

import msgspec

from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Terms


class Begin(msgspec.Struct, frozen=True, tag="begin", omit_defaults=True):
    """Make a conversation with this id, once, however often it is asked for."""

    conversation_id: ConversationId
    overrides: Overrides
    caller: Caller
    thread_source: str | None = None
    terms: Terms | None = None  # of the message that follows


encode_begin: Final = msgspec.json.Encoder().encode
decode_begin: Final = msgspec.json.Decoder(Begin).decode


class Refused(msgspec.Struct, frozen=True):
    """Why it was not made: what the caller is told, and the kind of failure."""

    text: str
    kind: str

    def written(self) -> str:
        return f"{self.kind} {self.text}"

    @classmethod
    def read(cls, written: str) -> "Refused":
        kind, _, text = written.partition(" ")
        return cls(text, kind)
