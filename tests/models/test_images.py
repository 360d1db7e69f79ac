"""Images for models: known by their content, within bounds, scaled where Pillow is there."""

import base64
import os
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.models.images import (
    LARGEST_ENCODED,
    MOST_BYTES,
    UnusableImage,
    image_kind,
    image_url,
    read_data_url,
)

Image = pytest.importorskip("PIL.Image")  # a stale environment may lack it
KINDS = ("png", "jpeg", "gif", "webp")


def made(kind: str, size: tuple[int, int] = (3, 2), **options: object) -> bytes:
    written = BytesIO()
    Image.new("RGB", size, "red").save(written, kind, **options)
    return written.getvalue()


def png_that_says(width: int, height: int, filling: int = 0) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"teXt", b"x" * filling), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    written = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + written


def noise(kind: str, side: int, mode: str = "RGB") -> bytes:
    written = BytesIO()
    Image.frombytes(mode, (side, side), os.urandom(side * side * len(mode))).save(written, kind, quality=100)
    return written.getvalue()


def shown(url: str) -> tuple[str, bytes]:
    head, _, data = url.partition(";base64,")
    return head, base64.b64decode(data, validate=True)


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_sent_as_it_is_with_the_type_of_its_content(kind: str) -> None:
    data = made(kind)
    wanted = (f"data:image/{kind}", data)
    assert shown(image_url(data)) == wanted
    assert shown(read_data_url("data:image/bmp;base64," + base64.b64encode(data).decode())) == wanted


@pytest.mark.parametrize("options", [{"lossless": True}, {"lossless": False}, {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}])
@pytest.mark.parametrize("kind", ["webp", "jpeg"])
def test_the_size_is_found_in_every_form_of_a_kind(kind: str, options: dict[str, object]) -> None:
    progressive = {"progressive": True} if kind == "jpeg" else {}
    data = made(kind, (9000, 3), **options, **progressive)
    smaller = Image.open(BytesIO(shown(image_url(data))[1]))
    assert smaller.size == (2048, 1)


@pytest.mark.parametrize(
    ("given", "side", "mode", "kind"), [("png", 1300, "RGB", "jpeg"), ("png", 1300, "RGBA", "png"), ("jpeg", 2300, "RGB", "jpeg")]
)
def test_what_is_too_large_is_scaled_until_it_fits(given: str, side: int, mode: str, kind: str) -> None:
    data = noise(given, side, mode)
    assert len(data) > LARGEST_ENCODED * 3 // 4
    url = image_url(data)
    assert len(url) <= LARGEST_ENCODED + 40
    assert shown(url)[0] == f"data:image/{kind}"


def test_without_pillow_the_reason_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['PIL'] = None\n"
        "from understudy.models.images import UnusableImage, image_url\n"
        "try: image_url(sys.stdin.buffer.read())\n"
        "except UnusableImage as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=png_that_says(9000, 10), capture_output=True, timeout=60, check=True
    )
    assert "too large for models (9000 x 10 pixels" in done.stdout.decode()
    assert "uv tool install '.[images]' (name your other extras there, too, or they are removed)" in done.stdout.decode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no image that models can see"),
        (b"hello", "no image that models can see"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no image that models can see"),
        (b"BM" + b"\0" * 60, "no image that models can see"),
        (b"\x89PNG\r\n\x1a\n", "damaged"),
        (b"\xff\xd8\xff\xe0\0\x01", "damaged"),
        (b"RIFF\0\0\0\0WEBPVP8L", "damaged"),
        (png_that_says(0, 5), "damaged"),
        (png_that_says(100_000, 100_000), "100000 x 100000 pixels"),
        (png_that_says(2**32 - 1, 1), "4294967295 x 1 pixels"),
        (png_that_says(9000, 5000), "damaged image, and too large"),
        (png_that_says(10, 10, LARGEST_ENCODED), "damaged image, and too large"),
        (png_that_says(10, 10, MOST_BYTES), "larger than 20 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_shown_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnusableImage, match=reason):
        image_url(data)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("data:", "write it as data:image/png;base64"),
        ("data:image/png,abc", "write it as"),
        ("data:image/png;base64,???", "not valid base64"),
        ("data:image/png;base64,ä", "not valid base64"),
        ("data:image/png;base64,AAAA", "no image"),
        ("data:image/png;base64," + "A" * (3 * MOST_BYTES), "larger than 20 MB"),
    ],
    ids=lambda value: value[:40],
)
def test_a_data_url_that_is_no_image_is_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(UnusableImage, match=reason):
        read_data_url(url)


@given(st.sampled_from([b"", *(made(kind)[:12] for kind in KINDS)]), st.binary(max_size=80))
def test_no_bytes_do_more_than_be_refused(head: bytes, rest: bytes) -> None:
    with suppress(UnusableImage):
        assert shown(image_url(head + rest))[0].startswith("data:image/")
    assert image_kind(rest) in (None, *KINDS)
