"""A compressed body, unpacked as it comes."""

import zlib

from understudy.net.failures import BadAnswer

STEP = 64 * 1024  # a small body may unpack to a huge one, so it is unpacked in bounded steps


class Unpacker:
    def __init__(self) -> None:
        self._unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def rest(self) -> bytes:
        """What was given and is not unpacked yet."""
        return self._unpacking.unconsumed_tail

    def unpack(self, data: bytes) -> bytes:
        """The next piece of it. Raises `BadAnswer`."""
        try:
            return self._unpacking.decompress(data, STEP)
        except zlib.error:
            raise BadAnswer("the server's compressed answer cannot be unpacked") from None
