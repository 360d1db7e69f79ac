"""Arguments of the conversation tools: what each takes, ids, and the content of a message with its images."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from understudy.engine.caller_limits import check_image_paths
from understudy.engine.handle import Handle
from understudy.errors import InvalidArguments
from understudy.protocol.choices import DECISIONS
from understudy.protocol.ids import read_uuid
from understudy.protocol.items import ContentPart, InputImage, InputText
from understudy.servers.arguments import (
    SESSION_MEMBERS,
    TERM_MEMBERS,
    WHAT_AN_ID_IS,
    Arguments,
    count,
    flag,
    one_in,
    sequence,
    table,
    text,
    whole_number,
    workspace,
)
from understudy.servers.given_images import image_item, local_image, places_for

if TYPE_CHECKING:
    from understudy.places.places import Places

OVERRIDES = {name.replace("-", "_"): check for name, check in SESSION_MEMBERS.items()}
TERMS = {name.replace("-", "_"): check for name, check in TERM_MEMBERS.items()}
CREATE = Arguments("an object", {"prompt": text, "workspace": workspace, **OVERRIDES, **TERMS})
SEND = Arguments(
    "an object",
    {"conversation_id": text, "content": sequence, "parent_message_id": text, **OVERRIDES, **TERMS},
    ("conversation_id", "content"),
)
STREAM = Arguments("an object", {"conversation_id": text, "after": whole_number}, ("conversation_id",))
LIST = Arguments("an object", {"limit": count, "cursor": text, "archived": flag})
ONE = Arguments("an object", {"conversation_id": text}, ("conversation_id",))
FORK = Arguments("an object", {"conversation_id": text, "message_id": text}, ("conversation_id",))
RENAME = Arguments("an object", {"conversation_id": text, "title": text}, ("conversation_id", "title"))
APPROVE = Arguments(
    "an object",
    {"conversation_id": text, "call_id": text, "decision": one_in(DECISIONS), "answers": table},
    ("conversation_id", "call_id", "decision"),
)

_encode = msgspec.json.Encoder().encode


class _Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class _Image(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    image_url: str


class _LocalImage(msgspec.Struct, frozen=True, tag="local_image", tag_field="type"):
    path: str


_decode_content = msgspec.json.Decoder(list[_Text | _Image | _LocalImage]).decode


def read_id(spelled: str, name: str) -> str:
    """Raises `InvalidArguments` that says where to find such an id."""
    try:
        return read_uuid(spelled)
    except ValueError as error:
        message_id = "It is the `messageId` in `_meta` of the result of sending a message."
        hint = WHAT_AN_ID_IS if name == "conversation_id" else message_id
        raise InvalidArguments(f"Failed to parse {name}: {error}\n{hint}") from None


async def read_content(items: list[Any], handle: Handle) -> tuple[ContentPart, ...]:
    """Paths of images are relative to the conversation's folder. Raises `InvalidArguments`."""
    if not items:
        raise InvalidArguments("No content items provided")
    try:
        decoded = _decode_content(_encode(items))
    except msgspec.ValidationError as error:
        hint = "Items are {type: text, text}, {type: image, image_url} or {type: local_image, path}."
        raise InvalidArguments(f"content: {error}\n{hint}") from None
    if all(isinstance(item, _Text) for item in decoded):
        return tuple(InputText(item.text) for item in decoded if isinstance(item, _Text))
    cwd, places = handle.facts.cwd, None
    if any(isinstance(item, _LocalImage) for item in decoded):
        check_image_paths(handle.caller.limits)
        places = places_for(handle)
    return await asyncio.to_thread(lambda: tuple(_part(item, cwd, places) for item in decoded))  # a disk may be slow


def _part(item: _Text | _Image | _LocalImage, cwd: str, places: "Places | None") -> ContentPart:
    match item:
        case _Text(text=words):
            return InputText(words)
        case _:
            return InputImage(_url(item, cwd, places))


def _url(item: _Image | _LocalImage, cwd: str, places: "Places | None") -> str:
    match item:
        case _Image(image_url=url):
            return image_item(url)
        case _LocalImage(path=path):
            assert places is not None
            return local_image(path, cwd, places)
