"""Compressed bodies: what was packed comes out, however it was packed and in whatever pieces it arrives."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.net.failures import BadAnswer
from understudy.net.unpacking import STEP, Unpacker

GZIP, FRAMED, BARE = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS
BODIES = st.one_of(st.binary(max_size=300), st.integers(0, 3 * STEP).map(lambda size: b"ab" * size))


def packed(data: bytes, form: int) -> bytes:
    packing = zlib.compressobj(wbits=form)
    return packing.compress(data) + packing.flush()


def unpacked(body: bytes, size: int) -> bytes:
    unpacker, out = Unpacker(), bytearray()
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        while piece or unpacker.more:
            some = unpacker.unpack(piece)
            assert len(some) <= STEP
            out += some
            piece = b""
    return bytes(out)


@given(BODIES, st.sampled_from([GZIP, FRAMED, BARE]), st.integers(1, 2000))
def test_every_form_in_any_pieces(data: bytes, form: int, size: int) -> None:
    assert unpacked(packed(data, form), size) == data


@given(st.lists(BODIES, min_size=1, max_size=3), st.sampled_from([b"", b"\0", b"\0\0\0", b"junk"]), st.integers(1, 2000))
def test_members_one_after_the_other_and_what_follows_them(members: list[bytes], more: bytes, size: int) -> None:
    body = b"".join(packed(each, GZIP) for each in members)
    assert unpacked(body + more, size) == b"".join(members)


@pytest.mark.parametrize("body", [b"no packed bytes", b"data: {}\n\n", packed(b"x" * 100, GZIP)[:-6] + b"------"])
def test_what_was_not_packed_so_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswer, match="cannot be unpacked"):
        unpacked(body, 7)
