"""Keys of questions: short ones that any process understands, so that an answer can come to another than the one that asked.

A key names the conversation and marks the question among those that are open there. It opens nothing by itself: whoever answers is
held to their rights.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from understudy.engine.handle import Handle
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import Question
from understudy.protocol.uuids import read_uuid, uuid_bytes, uuid_of

_PREFIX = "q."
_UUID_BYTES = 16
_MARK_BYTES = 16
_encode = msgspec.msgpack.Encoder().encode


class QuestionName(msgspec.Struct, frozen=True):
    conversation_id: ConversationId
    mark: bytes


class AskedQuestion(msgspec.Struct, frozen=True):
    question: Question
    turn: str
    asked_at: float


def digest_of(question: Question) -> bytes:
    return sha256(_encode(question)).digest()[:8]


def question_name(conversation_id: str, turn: str, question: Question, asked_at: float) -> str:
    raw = uuid_bytes(conversation_id) + _mark(turn, question.call_id, digest_of(question), asked_at)
    return _PREFIX + urlsafe_b64encode(raw).decode().rstrip("=")


def read_question_name(text: object) -> QuestionName | None:
    """None for what cannot be one of ours."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return None
    body = text[len(_PREFIX) :]
    try:
        raw = urlsafe_b64decode(body.encode() + b"=" * (-len(body) % 4))
        if len(raw) == _UUID_BYTES + _MARK_BYTES:
            return QuestionName(ConversationId(uuid_of(raw[:_UUID_BYTES])), raw[_UUID_BYTES:])
        return _read_long(raw)
    except (ValueError, msgspec.MsgspecError):
        return None


def find_asked(handle: Handle, name: QuestionName) -> AskedQuestion | None:
    """The open question that the key means: no other one, nor an earlier one that only reads the same."""
    facts = handle.facts
    turn = facts.turn or ""
    for call_id, question in facts.questions.items():
        asked_at = facts.asked_at.get(call_id, 0.0)
        if name.conversation_id == handle.id and name.mark == _mark(turn, call_id, digest_of(question), asked_at):
            return AskedQuestion(question, turn, asked_at)
    return None


def _mark(turn: str, call_id: str, digest: bytes, asked_at: float) -> bytes:
    return sha256(_encode((turn, call_id, digest, asked_at))).digest()[:_MARK_BYTES]


class _LongName(msgspec.Struct, frozen=True, array_like=True):
    """What the keys of earlier builds say themselves."""

    conversation_id: str
    turn: str
    call_id: str
    digest: bytes
    asked_at: float = 0.0


_decode_long = msgspec.msgpack.Decoder(_LongName).decode


def _read_long(raw: bytes) -> QuestionName | None:
    name = _decode_long(raw)
    if read_uuid(name.conversation_id) != name.conversation_id:
        return None
    return QuestionName(ConversationId(name.conversation_id), _mark(name.turn, name.call_id, name.digest, name.asked_at))
