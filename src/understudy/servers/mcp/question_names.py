"""Ids of questions that say themselves what they ask: an answer can be understood by another process than the one that asked."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec

from understudy.protocol.records import Question
from understudy.protocol.uuids import read_uuid

_PREFIX = "q."
_encode = msgspec.msgpack.Encoder().encode


class QuestionName(msgspec.Struct, frozen=True, array_like=True):
    conversation_id: str
    turn: str
    call_id: str
    digest: bytes  # of what was asked: an answer counts for nothing else
    asked_at: float = 0.0  # the same may be asked twice, under the same call id; 0: a name from before this was told apart

    def names(self, question: Question, asked_at: float) -> bool:
        """Whether it is this one, that was put at that time, and no earlier one that only reads the same."""
        return digest_of(question) == self.digest and self.asked_at in (0.0, asked_at)


_decode = msgspec.msgpack.Decoder(QuestionName).decode


def digest_of(question: Question) -> bytes:
    return sha256(_encode(question)).digest()[:8]


def question_name(conversation_id: str, turn: str, question: Question, asked_at: float) -> str:
    name = QuestionName(conversation_id, turn, question.call_id, digest_of(question), asked_at)
    return _PREFIX + urlsafe_b64encode(_encode(name)).decode()


def read_question_name(text: object) -> QuestionName | None:
    """None for what cannot be one of ours. It opens nothing by itself: whoever answers is held to their rights."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return None
    try:
        name = _decode(urlsafe_b64decode(text[len(_PREFIX) :].encode()))
        return name if read_uuid(name.conversation_id) == name.conversation_id else None
    except (ValueError, msgspec.MsgspecError):
        return None
