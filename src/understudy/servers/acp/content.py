"""Content blocks of ACP: reading prompts, and showing messages again."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from understudy.protocol.items import ContentPart, InputImage, InputText, Message
from understudy.servers.failures import InvalidParams, unknown_kind
from understudy.servers.given_images import image_item
from understudy.text import strip_terminal_escapes

Json = dict[str, Any]
LONGEST_PATH = 4096
_TICKS = re.compile("`+")
KINDS = ("text", "image", "resource_link", "resource")


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def text_content(text: str) -> Json:
    """A part of a tool call's content."""
    return {"type": "content", "content": text_block(text)}


def output_content(text: str) -> Json:
    """Content for the output of commands and tools."""
    return text_content(verbatim(strip_terminal_escapes(text)))


def question_content(text: str) -> Json:
    """Content for a question: its first line is ours, with backticks around others' words."""
    first, _, details = text.partition("\n")
    return text_content(f"{first}\n\n{verbatim(details)}" if details else first)


def verbatim(text: str) -> str:
    """The text as a block of code. Editors render text as Markdown, where output would lose its line breaks, and marks, links and
    comments would not be shown literally.
    """
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.removesuffix(chr(10))}\n{fence}"


def shown_blocks(message: Message) -> list[Json]:
    """A user's message, as it is replayed."""
    return [_image_block(part.image_url) if isinstance(part, InputImage) else text_block(part.text) for part in message.content]


def _image_block(url: str) -> Json:
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:image/") and head.endswith(";base64"):
        return {"type": "image", "mimeType": head.removeprefix("data:").removesuffix(";base64"), "data": data}
    return text_block(f"[image: {url[:200]}]")


async def read_prompt(blocks: Sequence[Json]) -> tuple[ContentPart, ...]:
    """Raises `InvalidParams` for content that cannot be read, and for an empty prompt."""
    if not blocks:
        raise InvalidParams("Invalid params: `prompt` is empty; give at least one block, such as a `text`")
    parts = [await _read(block, f"params.prompt[{number}]") for number, block in enumerate(blocks)]
    if all(isinstance(part, InputText) and not part.text for part in parts):
        raise InvalidParams("Invalid params: `prompt` has no text and no image in it")
    return tuple(parts)


async def _read(block: Json, where: str) -> ContentPart:
    match block:
        case {"type": "text", "text": str(text)}:
            return InputText(text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return await _image(data, kind)
        case {"type": "resource_link", "uri": str(uri)}:
            name = block.get("name")
            return InputText(f"[@{name if isinstance(name, str) and name else uri}]({uri})")
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return InputText(embedded(uri, text))
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob), **rest}}:
            kind = rest.get("mimeType")
            if isinstance(kind, str) and kind.startswith("image/"):
                return await _image(blob, kind)
            raise InvalidParams(f"Invalid params: `{where}` embeds {uri[:200]}, which is neither text nor an image")
        case {"type": "audio"}:
            raise InvalidParams(f"Invalid params: `{where}` is audio, which is not supported here")
        case _:
            raise unknown_kind(where, block, KINDS)


def pointed_at(blocks: Sequence[Json]) -> list[str]:
    """Paths of the files that a prompt names or embeds: the editor may have them open."""
    found: list[str] = []
    for block in blocks:
        match block:
            case {"type": "resource_link", "uri": str(uri)} | {"type": "resource", "resource": {"uri": str(uri)}}:
                path = _path_of(uri)
                if path:
                    found.append(path)
            case _:
                pass
    return found


def _path_of(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = unquote(parts.path)
    return path if parts.scheme == "file" and path.startswith("/") and "\0" not in path and len(path) < LONGEST_PATH else ""


def embedded(uri: str, text: str) -> str:
    """A file or selection from the editor, with a note for the model that says where it is from."""
    return f"Content of {uri}, as the editor has it:\n<content>\n{text}\n</content>"


async def _image(data: str, kind: str) -> InputImage:
    return InputImage(await asyncio.to_thread(image_item, f"data:{kind};base64,{data}"))  # scaling takes long
