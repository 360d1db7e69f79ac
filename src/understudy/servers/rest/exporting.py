"""`…/export`: the whole log as `understudy export` writes it, or the conversation for reading, in Markdown or as a page."""

import asyncio
import os
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from understudy.errors import UnknownConversation
from understudy.protocol.records import Entry
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
        await asyncio.sleep(0)  # others are served in between
    body = await asyncio.to_thread(_encoded, wanted.form, listed, entries)
    kind, ending = _KINDS[wanted.form]
    given = (b"content-disposition", f'attachment; filename="{handle.id}.{ending}"'.encode())
    return RestAnswer(body, headers=((b"content-type", kind), given))


def _encoded(form: str, listed: Listed, entries: Sequence[Entry]) -> bytes:
    if form == "json":
        return b"".join(export_lines(listed, entries))
    return "".join(text_lines(form, listed, entries, os.environ)).encode(errors="replace")
