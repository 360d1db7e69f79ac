"""How JSON is read from the store, where large pieces of it are compressed (`packed`, in `writing`)."""


def unpacked(data: bytes) -> bytes:
    """Raises ValueError. JSON of a record begins with a brace, what was compressed with an `x`."""
    if data[:1] != b"x":
        return data
    import zlib

    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from None
