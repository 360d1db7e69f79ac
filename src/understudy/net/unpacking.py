"""Unpacks a compressed body as it comes."""

import zlib

from understudy.net.failures import BadAnswer

STEP = 64 * 1024  # a small body may unpack to a huge one, so unpack it in limited steps


class Unpacker:
    def __init__(self) -> None:
        self._unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def rest(self) -> bytes:
        """Data that was given but not unpacked yet."""
        return self._unpacking.unconsumed_tail

    def unpack(self, data: bytes) -> bytes:
        """Unpack the next piece. Raises `BadAnswer`."""
        try:
            return self._unpacking.decompress(data, STEP)
        except zlib.error:
            raise BadAnswer("the server's compressed answer cannot be unpacked") from None
