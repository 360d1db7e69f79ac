"""Images as models accept them: recognized by their bytes, not their names, limited in size, as `data:` URLs."""

import base64
import struct
from io import BytesIO
from threading import Lock

from understudy.errors import how_to_add

LARGEST_ENCODED = 5 << 20  # characters of base64; providers accept no more
MOST_BYTES = 20 << 20  # of a file; an image too large for a provider is scaled down
MOST_PIXELS = 50_000_000  # a small file can claim to have any number of them
LONGEST_SIDE = 8000  # pixels; providers accept no more
SCALED_SIDES = (2048, 1024, 512)  # tried in this order until the image is small enough

NOT_AN_IMAGE = "it is no image that models can see: PNG, JPEG, GIF or WebP"
_DAMAGED = "it is a damaged image"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of a JPEG that are followed by its size
_MOST_PARTS = 10_000  # of a JPEG before its size; a file with nothing else would take seconds to read
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length

_one_at_a_time = Lock()  # a decoded image may take 200 MB


class UnusableImage(ValueError):
    """No model can be shown this image. The text says why and what to do; it follows the image's name."""


class NotAnImage(UnusableImage):
    """It is not an image, or it is damaged."""


def image_url(data: bytes) -> str:
    """For a model, scaled down if needed and possible. Raises `UnusableImage`."""
    if len(data) > MOST_BYTES:
        raise UnusableImage(f"it is larger than {MOST_BYTES >> 20} MB: make it smaller")
    kind = image_kind(data)
    if kind is None:
        raise NotAnImage(NOT_AN_IMAGE)
    width, height = _size(data, kind)
    if not width or not height:
        raise NotAnImage(_DAMAGED)
    if width * height > MOST_PIXELS:
        raise UnusableImage(f"it has {width} x {height} pixels, and more than {MOST_PIXELS // 1_000_000} million are too many")
    if max(width, height) > LONGEST_SIDE or not is_small(data):
        kind, data = _scaled(data, kind, f"{width} x {height} pixels, {len(data) / 1_000_000:.1f} MB")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def image_kind(data: bytes) -> str | None:
    """Recognized by its first bytes, because names can be wrong."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "gif"
    return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def is_small(data: bytes) -> bool:
    """Whether providers accept this much."""
    return (len(data) + 2) // 3 * 4 <= LARGEST_ENCODED


def read_data_url(url: str) -> str:
    """An image that the user gave as a `data:` URL, with its type corrected. Raises `UnusableImage`."""
    head, comma, encoded = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise NotAnImage("write it as data:image/png;base64,… (or jpeg, gif, webp)")
    if len(encoded) > 2 * MOST_BYTES:  # before it is decoded
        raise UnusableImage(f"it is larger than {MOST_BYTES >> 20} MB: make it smaller")
    try:
        return image_url(base64.b64decode("".join(encoded.split()), validate=True))
    except UnusableImage:
        raise
    except ValueError as error:
        raise NotAnImage(f"it is not valid base64: {error}") from None


# -- width and height, by what the head of the file says


def _size(data: bytes, kind: str) -> tuple[int, int]:
    """(0, 0) if the file does not say."""
    try:
        match kind:
            case "png":
                return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else (0, 0)
            case "gif":
                return struct.unpack_from("<HH", data, 6)
            case "webp":
                return _webp_size(data)
            case _:
                return _jpeg_size(data)
    except (struct.error, IndexError):
        return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X" if len(data) >= 30:
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L" if data[20] == 0x2F:
            [bits] = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_MOST_PARTS):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            [length] = struct.unpack_from(">H", data, at + 2)
            if length < 2:
                break
            at += 2 + length
    return 0, 0


# -- what is too large


def _scaled(data: bytes, kind: str, measures: str) -> tuple[str, bytes]:
    """Type and content of a smaller version. Raises `UnusableImage`."""
    try:
        from PIL import Image  # only available with the extra `images`
    except ImportError:
        hint = f"make it smaller, or have it scaled: {how_to_add('images')}"
        raise UnusableImage(f"it is too large for models ({measures}): {hint}") from None
    try:
        with _one_at_a_time, Image.open(BytesIO(data), formats=(kind.upper(),)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise NotAnImage(_DAMAGED)
            image.draft("RGB", (SCALED_SIDES[0], SCALED_SIDES[0]))  # a JPEG need not be decoded at full size
            pixels = image.convert("RGBA" if image.has_transparency_data else "RGB")
            for side in SCALED_SIDES:
                pixels.thumbnail((side, side))
                form = "PNG" if pixels.mode == "RGBA" else "JPEG"
                written = BytesIO()
                pixels.save(written, form, quality=85)
                if is_small(written.getvalue()):
                    return form.lower(), written.getvalue()
    except UnusableImage:
        raise
    except Exception as error:  # a decoder may raise anything for a file that is not what it claims
        raise NotAnImage(f"{_DAMAGED}, and too large to be shown as it is ({measures})") from error
    raise UnusableImage(f"it is too large for models ({measures}): make it smaller")
