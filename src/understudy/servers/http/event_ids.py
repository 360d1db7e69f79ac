"""Ids of events: they say by themselves where a stream stands, so that it can be resumed from the log by any process.

An id names the stream (a call: its request, its conversation and its message), the record that was shown last and how many messages
of it, and how much of unfinished text was given. Whoever resumes is held to the rights they have: an id opens nothing by itself.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from uuid import UUID

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import RequestId

_encode = msgspec.msgpack.Encoder().encode
_FORM = re.compile(r"([A-Za-z0-9_-]{1,2000})\.(\d{1,18})\.(\d{1,9})\.(\d{1,18})(?:\.([a-z0-9-]{1,4000}))?")
_GIVEN = re.compile(r"([trw]|o[0-9a-f]{8})-(\d{1,15})")


class CallStream(msgspec.Struct, frozen=True):
    """The stream of a `codex` or `codex-reply` call."""

    request_id: RequestId
    progress_token: RequestId | None
    conversation_id: ConversationId
    message_id: str
    begin: int  # the record after which the call began to watch

    def encode(self) -> str:
        packed = _Packed(
            self.request_id, self.progress_token, UUID(self.conversation_id).bytes, UUID(self.message_id).bytes, self.begin
        )
        return urlsafe_b64encode(_encode(packed)).decode().rstrip("=")


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """The same, in fewer bytes: it stands in every event."""

    request_id: RequestId
    progress_token: RequestId | None
    conversation_id: bytes
    message_id: bytes
    begin: int


class Position(msgspec.Struct, frozen=True):
    """What a client has been given of a stream."""

    record: int = 0
    messages: int = 0  # of that record
    progress: int = 0  # how far the call's progress had counted
    given: Mapping[str, int] = {}  # of unfinished texts


_decode = msgspec.msgpack.Decoder(_Packed).decode


def write_event_id(stream: str, position: Position) -> bytes:
    given = "".join(f"{'' if at == 0 else '--'}{mark}-{length}" for at, (mark, length) in enumerate(position.given.items()))
    text = f"{stream}.{position.record}.{position.messages}.{position.progress}"
    return (f"{text}.{given}" if given else text).encode()


def read_event_id(text: str) -> tuple[CallStream, Position] | None:
    """None for what is none of ours."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        name = found[1]
        packed = _decode(urlsafe_b64decode(name + "=" * (-len(name) % 4)))
        conversation_id = ConversationId(str(UUID(bytes=packed.conversation_id)))
        message_id = str(UUID(bytes=packed.message_id))
    except (ValueError, msgspec.MsgspecError):
        return None
    if not 0 <= packed.begin <= int(found[2]):
        return None
    stream = CallStream(packed.request_id, packed.progress_token, conversation_id, message_id, packed.begin)
    given: dict[str, int] = {}
    for part in (found[5] or "").split("--") if found[5] else ():
        mark = _GIVEN.fullmatch(part)
        if mark is None:
            return None
        given[mark[1]] = int(mark[2])
    return stream, Position(int(found[2]), int(found[3]), int(found[4]), given)
