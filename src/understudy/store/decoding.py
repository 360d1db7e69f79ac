"""How JSON is read from the store, where large pieces of it are compressed (`packed`, in `writing`).

The decoders are made when something is read for the first time: a new conversation reads nothing, and they take a millisecond.
"""

from collections.abc import Callable
from functools import cache

import msgspec

from understudy.protocol.ops import Op
from understudy.protocol.records import Record
from understudy.store.log import SavedText, Summary

Data = bytes | str


@cache
def record_decoder() -> Callable[[Data], Record]:
    return msgspec.json.Decoder(Record).decode


@cache
def summary_decoder() -> Callable[[Data], Summary]:
    return msgspec.json.Decoder(Summary).decode


@cache
def saved_text_decoder() -> Callable[[Data], SavedText]:
    return msgspec.json.Decoder(SavedText).decode


@cache
def op_decoder() -> Callable[[Data], Op]:
    return msgspec.json.Decoder(Op).decode


def unpacked(data: bytes) -> bytes:
    """Raises ValueError. JSON of a record begins with a brace, what was compressed with an `x`."""
    if data[:1] != b"x":
        return data
    import zlib

    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from None
