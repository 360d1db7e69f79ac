"""Whether a path is near: what stands there is opened without waiting for a network or another program."""

import os
from functools import cache

from understudy.places.file_systems import FileSystems


def is_near(path: str, base: str = "/") -> bool:
    """Of an absolute path, seen from the folder `base`, as long as there is no link on the way."""
    if ".." in path.split("/"):
        return False
    try:
        whole = os.fsencode(os.path.normpath(f"{base}/{path}"))
    except UnicodeEncodeError:
        return False  # there is no such file, as whoever opens it says
    return _file_systems().is_local_all_along(whole)


@cache
def _file_systems() -> FileSystems:
    return FileSystems()
