"""Reading files for a model: what is masked is not read, under whatever name, nor what a link leads to behind it."""

import asyncio
import os

from understudy.errors import ToolError
from understudy.places.reading import NotForModels
from understudy.tools.host import ToolHost


async def read_file(host: ToolHost, path: str, most: int) -> bytes:
    """The head of a regular file. Raises `ToolError` with the reason, as the model is told it."""
    if not path or "\0" in path:
        raise ToolError(f"{path!r} is not a path")
    places = host.settings.places
    if (complaint := places.complaint()) is not None:
        raise ToolError(f"nothing was read: {complaint}")
    place = os.path.join(places.real(host.settings.cwd), path)
    return await asyncio.to_thread(_read, host, place, path, most)  # it may lie on a slow disk, and others wait for the loop


def _read(host: ToolHost, place: str, path: str, most: int) -> bytes:
    try:
        with open(host.settings.places.open_for_model(place), "rb") as file:
            return file.read(most)
    except NotForModels as error:
        raise ToolError(f"{path} may not be read: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolError(f"{path} cannot be read: {reason}") from None
