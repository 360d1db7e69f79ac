"""How JSON lies in the store: large pieces of it are compressed."""

PACKED_RECORD = 1024 * 1024  # bytes from which a record is compressed: few ever are
PACKED_PIECE = 16 * 1024  # and a piece of the text so far


def packed(data: bytes, least: int) -> bytes:
    """Large JSON is stored compressed: every byte of it is written twice, to the write-ahead log and to the file."""
    if len(data) < least:
        return data
    import zlib

    return zlib.compress(data, 1)


def unpacked(data: bytes) -> bytes:
    """Raises ValueError. JSON of a record begins with a brace, what was compressed with an `x`."""
    if data[:1] != b"x":
        return data
    import zlib

    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from None
