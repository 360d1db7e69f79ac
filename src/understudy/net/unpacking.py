"""Unpacks a compressed body as it comes."""

import zlib

from understudy.net.failures import BadAnswer

STEP = 64 * 1024  # a small body may unpack to a huge one, so unpack it in limited steps
_GZIP = b"\x1f\x8b"


class Unpacker:
    """Of `gzip`, in one member or several, and of `deflate`, with and without the frame that belongs to it."""

    def __init__(self) -> None:
        self._unpacking = zlib.decompressobj(0)  # replaced when the first two bytes are there
        self._begun = False
        self._rest: bytes = b""  # came, and is not unpacked yet
        self.more = False  # whether there is more before the next piece

    def unpack(self, data: bytes) -> bytes:
        """Unpack the next piece, or more of what came before. Raises `BadAnswer`."""
        data = self._rest + data
        self._rest = b""
        if not self._begun or self._unpacking.eof:
            if self._begun:
                data = data.lstrip(b"\0")
            if len(data) < 2:
                self._rest, self.more = data, False
                return b""
            if not self._begin(data):
                self.more = False
                return b""
        try:
            unpacked = self._unpacking.decompress(data, STEP)
        except zlib.error:
            raise BadAnswer("the server's compressed answer cannot be unpacked") from None
        self._rest = self._unpacking.unused_data if self._unpacking.eof else self._unpacking.unconsumed_tail
        self.more = bool(self._rest) or len(unpacked) == STEP
        return unpacked

    def _begin(self, data: bytes) -> bool:
        """False for what follows a whole body and is no further member: everybody ignores it."""
        if data.startswith(_GZIP):
            form = zlib.MAX_WBITS | 16
        elif self._begun:
            return False
        else:
            form = zlib.MAX_WBITS if _is_framed(data) else -zlib.MAX_WBITS
        self._unpacking, self._begun = zlib.decompressobj(form), True
        return True


def _is_framed(data: bytes) -> bool:
    """By the frame of `deflate`, which some servers leave out."""
    return data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
