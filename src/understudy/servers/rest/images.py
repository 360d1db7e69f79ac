"""`…/images/SEQ/NUMBER`: an image of a record. Only kinds that are nothing but pictures; never what could run, as SVG can."""

import binascii
from base64 import b64decode

from understudy.protocol.items import InputImage
from understudy.protocol.records import Entry, ToolAnswered, TurnQueued, UserMessage
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.visits import RestAnswer, Visit

_BEGIN = {
    b"\x89PNG\r\n\x1a\n": b"image/png",
    b"\xff\xd8\xff": b"image/jpeg",
    b"GIF87a": b"image/gif",
    b"GIF89a": b"image/gif",
}
_GUARDING = (
    (b"content-security-policy", b"default-src 'none'; sandbox; frame-ancestors 'none'"),
    (b"content-disposition", b"inline"),
    (b"cache-control", b"private, max-age=86400, immutable"),  # a record does not change
)


async def image(visit: Visit) -> RestAnswer:
    handle = await visit.find()
    seq, number = visit.named["seq"], visit.named["number"]
    if not (seq.isascii() and number.isascii() and seq.isdecimal() and number.isdecimal() and len(seq) < 16 and len(number) < 6):
        raise NotThere("no such image")
    if not 0 < int(seq) <= handle.published:
        raise NotThere("no such image")
    urls = [url for entry in await handle.read(int(seq) - 1, 1) if entry.seq == int(seq) for url in urls_of(entry)]
    if int(number) >= len(urls):
        raise NotThere("no such image")
    data = _data_of(urls[int(number)])
    kind = None if data is None else kind_of(data)
    if data is None or kind is None:
        raise NotThere("this image is not here, or is of a kind that is not shown")
    return RestAnswer(data, headers=((b"content-type", kind), *_GUARDING))


def urls_of(entry: Entry) -> list[str]:
    match entry.record:
        case UserMessage(message=message) | TurnQueued(message=UserMessage(message=message)):
            return [part.image_url for part in message.content if isinstance(part, InputImage)]
        case ToolAnswered(output=output):
            return list(output.images)
        case _:
            return []


def kind_of(data: bytes) -> bytes | None:
    """By what it is, whatever it is called."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return b"image/webp"
    return next((kind for begin, kind in _BEGIN.items() if data.startswith(begin)), None)


def _data_of(url: str) -> bytes | None:
    head, comma, encoded = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    try:
        return b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
