"""Images that a caller gives with a message: files and `data:` URLs, read at once so that the log holds what the model is shown.

A caller names a file, but a model may have written what is there. So the file is opened and checked like anything read for a model.
"""

import asyncio
import base64
import mimetypes
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from understudy.config.sandbox import places_of
from understudy.engine.caller_limits import check_image_paths
from understudy.engine.engine import Engine
from understudy.engine.handle import Handle
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
from understudy.places.places import Places
from understudy.places.reading import NotForModels
from understudy.protocol.callers import Caller
from understudy.protocol.encodable import visible
from understudy.protocol.items import InputImage
from understudy.protocol.records import Overrides
from understudy.protocol.serde import found

MOST_IMAGES = 16  # images in one message
MOST_TOGETHER = 4 * LARGEST_ENCODED
_SHOWN = 200  # characters of the given value that an error repeats

FindPlaces = Callable[[], Places]  # only files need them


def places_for(handle: Handle) -> Places:
    """Where files may be read for a conversation. Raises `ConfigError`."""
    setup = handle.setup()
    return places_of(setup.config, setup.pins)


def places_for_new(engine: Engine, overrides: Overrides) -> Places:
    """Where files may be read for a conversation that will begin with these overrides. Raises `ConfigError`."""
    return places_of(engine.configure(overrides))


def check_images(value: object) -> str | None:
    if not isinstance(value, list):
        return f"invalid type: {found(value)}, expected a sequence"
    for item in cast(list[Any], value):
        if not isinstance(item, str):
            return f"invalid type: {found(item)}, expected a string: a path or a data: URL"
    count = len(cast(list[Any], value))
    return None if count <= MOST_IMAGES else f"invalid value: {count} images, expected {MOST_IMAGES} at most"


async def read_images(caller: Caller, given: Sequence[str], cwd: str, find_places: FindPlaces) -> tuple[InputImage, ...]:
    """Read the images of `codex` and `codex-reply`: paths (relative to `cwd`) and `data:` URLs. Raises `InvalidArguments`, and
    `NotAllowed` if the caller may not name files.
    """
    places: Places | None = None
    if not all(item.startswith("data:") for item in given):
        check_image_paths(caller.limits)
        places = find_places()
    urls = await asyncio.to_thread(
        lambda: [_read(item, cwd, places) for item in given]
    )  # a disk may be slow, and scaling takes long
    if sum(map(len, urls)) > MOST_TOGETHER:
        raise InvalidArguments(
            f"the images have more than {MOST_TOGETHER >> 20} MB together: send fewer or smaller ones\nin `images`"
        )
    return tuple(map(InputImage, urls))


def _read(given: str, cwd: str, places: Places | None) -> str:
    try:
        return read_data_url(given) if places is None or given.startswith("data:") else image_url(_content(given, cwd, places))
    except UnusableImage as error:
        raise InvalidArguments(f"image {_named(given)} cannot be shown to a model: {error}\nin `images`") from None


def local_image(given: str, cwd: str, places: Places) -> str:
    """A file in an item of a message. If it is not an image, it goes to the provider unchanged, as in codex. Raises
    `InvalidArguments`.
    """
    try:
        data = _content(given, cwd, places)
        try:
            return image_url(data)
        except NotAnImage:
            if not is_small(data):
                raise
    except UnusableImage as error:
        raise InvalidArguments(f"local_image {visible(os.path.join(cwd, given))} cannot be read: {error}") from None
    kind = mimetypes.guess_type(given)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image_item(url: str) -> str:
    """A URL in an item of a message. A web address, and data that is not an image, stay as they are. Raises `InvalidArguments`."""
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


def _content(given: str, cwd: str, places: Places) -> bytes:
    try:
        with open(places.open_for_model(os.path.join(os.getcwd(), cwd, given)), "rb") as file:
            return file.read(MOST_BYTES + 1)
    except NotForModels as error:
        raise UnusableImage(str(error)) from None
    except (FileNotFoundError, NotADirectoryError):
        raise UnusableImage("no such file") from None
    except OSError as error:
        raise UnusableImage(f"{error.strerror}") from None
    except ValueError as error:  # not a valid file name
        raise error if isinstance(error, UnusableImage) else UnusableImage(str(error)) from None


def _named(given: str) -> str:
    return visible(given if len(given) <= _SHOWN else given[:_SHOWN] + "…")
