"""Checks that text can be written as UTF-8, and encodes records as the bytes that the log keeps.

File names and arguments may hold bytes that are not UTF-8; Python turns them into lone surrogates, which JSON cannot hold. Choices
of a person or client (configuration, `-c`, a working folder) are refused with a clear error where they enter. Text that we only
report (such as a name in an error) is written with the odd bytes made visible: `\\udcff`.
"""

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from understudy.errors import CannotBeRecorded

T = TypeVar("T", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    """The text with everything spelled out that UTF-8 cannot hold."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def encode(record: T) -> tuple[T, bytes]:
    """The record in a form that can be kept, and its bytes. Raises `CannotBeRecorded`."""
    try:
        try:
            return record, _encode(record)
        except UnicodeEncodeError:
            cleaned = msgspec.convert(_visible_within(msgspec.to_builtins(record)), type(record))
            return cleaned, _encode(cleaned)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        kind = record.__struct_config__.tag or type(record).__name__
        raise CannotBeRecorded(f"the record `{kind}` cannot be kept in the log: {visible(str(error))}") from error


def encode_all(records: Sequence[T]) -> tuple[Sequence[T], Sequence[bytes]]:
    """Like `encode`, for several records. Raises `CannotBeRecorded`."""
    try:
        return records, list(map(_encode, records))
    except Exception:  # at least one record must be repaired
        kept = [encode(record) for record in records]
        return [record for record, _ in kept], [data for _, data in kept]


def _visible_within(value: Any) -> Any:
    match value:
        case str():
            return visible(value)
        case dict():
            return {visible(key): _visible_within(inner) for key, inner in cast(dict[str, Any], value).items()}
        case list() | tuple():
            return [_visible_within(inner) for inner in cast(list[Any], value)]
        case _:
            return value
