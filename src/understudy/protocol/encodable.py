"""Text that can be written as UTF-8, and records as the bytes that the log keeps.

File names and arguments may hold bytes that are not UTF-8; Python gives these as lone surrogates, which no JSON can hold. What a
person or a client chose (configuration, `-c`, a folder to work in) is refused with a clear error where it enters. What we only
report (a name in an error, say) is written with the odd bytes made visible: `\\udcff`.
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
    """The text with everything that UTF-8 cannot hold spelled out."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def encode(record: T) -> tuple[T, bytes]:
    """A record as it can be kept, and its bytes. Raises `CannotBeRecorded`."""
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
    """The same of several. Raises `CannotBeRecorded`."""
    try:
        return records, list(map(_encode, records))
    except Exception:  # at least one of them has to be looked at
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
