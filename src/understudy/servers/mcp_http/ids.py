"""Ids that carry their own meaning: a session's id has its owner and what was negotiated, sealed; an event's id has the stream's
position.
"""

import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated
from uuid import UUID

import msgspec

from understudy.protocol.ids import ConversationId
from understudy.protocol.jsonrpc import RequestId
from understudy.servers.mcp.handshake import Handshake
from understudy.servers.sealing import EndedIds, IdSeal

LIFETIME_SECONDS = 30 * 24 * 3600
LONGEST_NAME = 100
_encode = msgspec.msgpack.Encoder().encode


class SealedSession(msgspec.Struct, frozen=True, array_like=True):
    nonce: bytes
    principal: str
    version: str
    can_be_asked: bool
    name: str
    name_version: str
    extended: bool
    created: int

    def handshake(self) -> Handshake:
        return Handshake(self.version, self.can_be_asked, self.name, self.name_version, extended=self.extended)


_decode_session = msgspec.msgpack.Decoder(SealedSession).decode


class SessionIds:
    def __init__(self, state_dir: Path) -> None:
        self._seal = IdSeal(state_dir, b"mcp session")
        self.ended = EndedIds(state_dir / "ended_sessions", LIFETIME_SECONDS)

    def make(self, principal: str, handshake: Handshake, version: str) -> str:
        sealed = SealedSession(
            secrets.token_bytes(12),
            principal,
            version,
            handshake.can_be_asked,
            handshake.name[:LONGEST_NAME],
            handshake.name_version[:LONGEST_NAME],
            handshake.extended,
            int(time.time()),
        )
        return self._seal.close(_encode(sealed))

    def read(self, session_id: str) -> SealedSession | None:
        """None for an id that is not ours, has ended, or is too old."""
        body = self._seal.open(session_id)
        try:
            session = None if body is None else _decode_session(body)
        except msgspec.MsgspecError:
            session = None
        return None if session is None or self.is_over(session) else session

    def is_over(self, session: SealedSession) -> bool:
        """Whether it was ended or is too old. A session from the future is valid: the clock was set back."""
        return session.nonce.hex() in self.ended or time.time() - session.created >= LIFETIME_SECONDS

    def end(self, session: SealedSession) -> None:
        """Ended from now on, even after a restart."""
        self.ended.add(session.nonce.hex(), session.created)

    def reload(self) -> None:
        """Read what another server of this home has ended; to be called about every second."""
        self.ended.reload()


_FORM = re.compile(r"([A-Za-z0-9_-]{1,2000})\.(\d{1,18})\.(\d{1,9})\.(\d{1,18})(?:\.([a-z0-9-]{1,4000}))?")
_GIVEN = re.compile(r"([trw]|o[0-9a-f]{8})-(\d{1,15})")
_ASKED = re.compile(r"q([0-9a-f]{8})")
_PLACE = re.compile(r"([A-Za-z0-9_-]{1,2000})(?:\.(\d{1,18})\.(\d{1,9})(?:\.([a-z0-9-]{1,4000}))?)?")
BEGINNING = "~"  # begins an id that holds the positions of a session's conversations
MOST_STREAMS = 32  # in one id
ALL = 999_999_999  # all messages of a record


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
    """The same in fewer bytes, because every event has it."""

    request_id: RequestId
    progress_token: RequestId | None
    conversation_id: bytes
    message_id: bytes
    begin: int


class StreamPosition(msgspec.Struct, frozen=True):
    """What a client has been given of a stream."""

    record: int = 0
    messages: int = 0  # how many messages of that record
    progress: int = 0  # the progress count of the call
    given: Mapping[str, int] = {}  # how much of each unfinished text
    asked: frozenset[str] = frozenset()  # open questions that were asked; only for streams that do not count them as messages


class StreamName(msgspec.Struct, frozen=True):
    """A conversation that a session watches by `conversationStream`."""

    request_id: RequestId
    conversation_id: ConversationId
    call: RequestId | None  # the request that made the conversation
    after: int | None  # the client's own argument

    def encode(self) -> str:
        packed = _PackedStream(self.request_id, UUID(self.conversation_id).bytes, self.call, self.after)
        return urlsafe_b64encode(_encode(packed)).decode().rstrip("=")


class _PackedStream(msgspec.Struct, frozen=True, array_like=True):
    request_id: RequestId
    conversation_id: bytes
    call: RequestId | None
    after: Annotated[int, msgspec.Meta(ge=0)] | None


class StreamPlace(msgspec.Struct, frozen=True):
    """A stream with what the client has seen of it. None: not even its snapshot was sent."""

    stream: StreamName
    seen: StreamPosition | None


_decode_event = msgspec.msgpack.Decoder(_Packed).decode
_decode_stream = msgspec.msgpack.Decoder(_PackedStream).decode


def write_event_id(stream: str, position: StreamPosition) -> bytes:
    given = "".join(f"{'' if at == 0 else '--'}{mark}-{length}" for at, (mark, length) in enumerate(position.given.items()))
    text = f"{stream}.{position.record}.{position.messages}.{position.progress}"
    return (f"{text}.{given}" if given else text).encode()


def read_event_id(text: str) -> tuple[CallStream, StreamPosition] | None:
    """None if the id is not ours."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        name = found[1]
        packed = _decode_event(urlsafe_b64decode(name + "=" * (-len(name) % 4)))
        conversation_id = ConversationId(str(UUID(bytes=packed.conversation_id)))
        message_id = str(UUID(bytes=packed.message_id))
    except (ValueError, msgspec.MsgspecError):
        return None
    if not 0 <= packed.begin <= int(found[2]):
        return None
    stream = CallStream(packed.request_id, packed.progress_token, conversation_id, message_id, packed.begin)
    given = _read_given((found[5] or "").split("--") if found[5] else ())
    return None if given is None else (stream, StreamPosition(int(found[2]), int(found[3]), int(found[4]), given))


def _read_given(parts: Iterable[str]) -> dict[str, int] | None:
    given: dict[str, int] = {}
    for part in parts:
        mark = _GIVEN.fullmatch(part)
        if mark is None:
            return None
        given[mark[1]] = int(mark[2])
    return given


def write_stream_place(name: str, position: StreamPosition) -> bytes:
    """The position in one conversation. An id joins the positions of all that a session watches, each after `BEGINNING`."""
    marks = [f"{mark}-{length}" for mark, length in position.given.items()]
    marks += [f"q{digest}" for digest in sorted(position.asked)]
    text = f"{name}.{position.record}.{position.messages}"
    return (f"{text}.{'--'.join(marks)}" if marks else text).encode()


def read_stream_places(text: str) -> list[StreamPlace] | None:
    """None if the id is not ours."""
    parts = text.split(BEGINNING)
    if parts[0] or not 1 < len(parts) <= MOST_STREAMS + 1:
        return None
    places = [_read_stream_place(part) for part in parts[1:]]
    return None if None in places else [place for place in places if place is not None]


def _read_stream_place(text: str) -> StreamPlace | None:
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    try:
        packed = _decode_stream(urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
        conversation_id = ConversationId(str(UUID(bytes=packed.conversation_id)))
    except (ValueError, msgspec.MsgspecError):
        return None
    stream = StreamName(packed.request_id, conversation_id, packed.call, packed.after)
    if found[2] is None:
        return StreamPlace(stream, None)
    marks = found[4].split("--") if found[4] else []
    asked = frozenset(name[1] for mark in marks if (name := _ASKED.fullmatch(mark)) is not None)
    given = _read_given(mark for mark in marks if not _ASKED.fullmatch(mark))
    return None if given is None else StreamPlace(stream, StreamPosition(int(found[2]), int(found[3]), 0, given, asked))
