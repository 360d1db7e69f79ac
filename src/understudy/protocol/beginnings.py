"""What a front end asks a worker to begin. The front end has no folders of its own, so it cannot pin any."""

from typing import Final

import msgspec

from understudy.protocol.callers import Caller
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Overrides, Terms


class Begin(msgspec.Struct, frozen=True, tag="begin", omit_defaults=True):
    """Make a conversation with this id. Repeating the request makes no second one."""

    conversation_id: ConversationId
    overrides: Overrides
    caller: Caller
    thread_source: str | None = None
    terms: Terms | None = None  # the terms of the message that follows


encode_begin: Final = msgspec.json.Encoder().encode
decode_begin: Final = msgspec.json.Decoder(Begin).decode


class Refused(msgspec.Struct, frozen=True):
    """Why the conversation was not made: the text for the caller, and the kind of failure."""

    text: str
    kind: str

    def written(self) -> str:
        return f"{self.kind} {self.text}"

    @classmethod
    def read(cls, written: str) -> "Refused":
        kind, _, text = written.partition(" ")
        return cls(text, kind)
