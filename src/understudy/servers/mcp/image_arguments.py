"""Images that a caller gives with a message: files and `data:` URLs, read at once so that the log has what the model is shown."""

import asyncio
import base64
import mimetypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from understudy.errors import InvalidArguments
from understudy.models.images import (
    LARGEST_ENCODED,
    MOST_BYTES,
    NotAnImage,
    UnusableImage,
    image_url,
    is_small,
    read_data_url,
)
from understudy.protocol.encodable import visible
from understudy.protocol.items import InputImage
from understudy.protocol.serde import found

MOST_IMAGES = 16  # of one message
MOST_TOGETHER = 4 * LARGEST_ENCODED
_SHOWN = 200  # characters of what was given that an error repeats


def check_images(value: object) -> str | None:
    if not isinstance(value, list):
        return f"invalid type: {found(value)}, expected a sequence"
    for item in cast(list[Any], value):
        if not isinstance(item, str):
            return f"invalid type: {found(item)}, expected a string: a path or a data: URL"
    count = len(cast(list[Any], value))
    return None if count <= MOST_IMAGES else f"invalid value: {count} images, expected {MOST_IMAGES} at most"


async def read_images(given: Sequence[str], cwd: str) -> tuple[InputImage, ...]:
    """Of `codex` and `codex-reply`: paths, relative ones from `cwd`, and `data:` URLs. Raises `InvalidArguments`."""
    urls = await asyncio.to_thread(lambda: [_read(item, cwd) for item in given])  # a disk may be slow, and scaling takes long
    if sum(map(len, urls)) > MOST_TOGETHER:
        raise InvalidArguments(
            f"the images have more than {MOST_TOGETHER >> 20} MB together: send fewer or smaller ones\nin `images`"
        )
    return tuple(map(InputImage, urls))


def _read(given: str, cwd: str) -> str:
    try:
        return read_data_url(given) if given.startswith("data:") else image_url(_content(Path(os.path.join(cwd, given))))
    except UnusableImage as error:
        raise InvalidArguments(f"image {_named(given)} cannot be shown to a model: {error}\nin `images`") from None


def local_image(path: Path) -> str:
    """Of an item of a message. What is no image goes to the provider as it is, as codex does it. Raises `InvalidArguments`."""
    try:
        data = _content(path)
        try:
            return image_url(data)
        except NotAnImage:
            if not is_small(data):
                raise
    except UnusableImage as error:
        raise InvalidArguments(f"local_image {visible(str(path))} cannot be read: {error}") from None
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image_item(url: str) -> str:
    """Of an item of a message: an address on the web stays what it is, and so does what is no image. Raises `InvalidArguments`."""
    if not url.startswith("data:"):
        return url
    try:
        return read_data_url(url)
    except NotAnImage as error:
        if len(url) <= LARGEST_ENCODED:
            return url
        problem = error
    except UnusableImage as error:
        problem = error
    raise InvalidArguments(f"image {_named(url)} cannot be shown to a model: {problem}")


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UnusableImage("no such file")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnusableImage(f"{error.strerror}") from None
    except ValueError as error:  # no name of a file
        raise error if isinstance(error, UnusableImage) else UnusableImage(str(error)) from None


def _named(given: str) -> str:
    return visible(given if len(given) <= _SHOWN else given[:_SHOWN] + "…")
