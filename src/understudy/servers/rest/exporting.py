"""Whole downloads: the log as `understudy export` writes it, the conversation for reading, or an image of a record."""

import asyncio
import binascii
import os
from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from understudy.errors import UnknownConversation
from understudy.protocol.items import InputImage
from understudy.protocol.records import Entry, ToolAnswered, TurnQueued, UserMessage
from understudy.servers.rest.failures import NotThere
from understudy.servers.rest.visits import RestAnswer, Visit
from understudy.servers.sharing.writing import text_lines
from understudy.store.log import Listed
from understudy.store.transfer import export_lines

PAGE = 500
_KINDS = {
    "json": (b"application/x-ndjson", "jsonl"),
    "md": (b"text/markdown; charset=utf-8", "md"),
    "markdown": (b"text/markdown; charset=utf-8", "md"),
    "html": (b"text/html; charset=utf-8", "html"),
}


class ExportWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    form: Annotated[
        Literal["json", "md", "markdown", "html"],
        msgspec.Meta(
            description="json: every record, in lines that `understudy import` reads; md, html: for people, without secrets"
        ),
    ] = msgspec.field(default="json", name="format")


async def export(visit: Visit, wanted: ExportWanted) -> RestAnswer:
    handle = await visit.find()
    listed = await visit.engine.listed(handle.id)
    if listed is None:
        raise UnknownConversation("deleted meanwhile")
    entries: list[Entry] = []
    while (at := entries[-1].seq if entries else 0) < listed.last_seq:  # no further than the digest in the list
        page = await handle.read(at, min(PAGE, listed.last_seq - at))
        if not page:
            raise UnknownConversation("deleted meanwhile")
        entries += page
        await asyncio.sleep(0)  # lets others be served
    body = await asyncio.to_thread(_encoded, wanted.form, listed, entries)
    kind, ending = _KINDS[wanted.form]
    given = (b"content-disposition", f'attachment; filename="{handle.id}.{ending}"'.encode())
    return RestAnswer(body, headers=((b"content-type", kind), given))


def _encoded(form: str, listed: Listed, entries: Sequence[Entry]) -> bytes:
    if form == "json":
        return b"".join(export_lines(listed, entries))
    return "".join(text_lines(form, listed, entries, os.environ)).encode(errors="replace")


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
    """The type by the content, whatever its name says."""
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
