"""What becomes of a question that nobody answers, and who is told that there is one."""

from typing import Literal, cast

import msgspec

from understudy.config.schema import TreeReader

Unasked = Literal["deny", "wait"]


class QuestionSettings(msgspec.Struct, frozen=True, kw_only=True):
    timeout_seconds: float = 0.0  # after which a question is answered by a no; 0: never
    unasked: Unasked = "deny"  # whether a question waits for somebody when the caller cannot be asked
    command: tuple[str, ...] = ()  # a program that is told of each question
    url: str | None = None  # an address that is told of it


def read_questions(read: TreeReader) -> QuestionSettings:
    return QuestionSettings(
        timeout_seconds=read.amount("understudy.question_timeout") or 0.0,
        unasked=cast(Unasked, read.choice("understudy.unasked", ("deny", "wait")) or "deny"),
        command=read.texts("understudy.on_question.command") or (),
        url=_read_url(read),
    )


def _read_url(read: TreeReader) -> str | None:
    key = "understudy.on_question.url"
    url = read.text(key)
    if url and not url.lower().startswith(("http://", "https://")):
        raise read.mismatch(key, "invalid value: not an address", "an address that begins with `https://` or `http://`")
    return url or None
