"""Finds the real paths of folders that a user names, once. Imports little: the sandbox uses it without the rest."""

import os
import stat
from collections.abc import Iterable

from understudy.places.walking import real_paths


class Place:
    """A folder (or file) that the user named, and its identity when it was pinned."""

    __slots__ = ("device", "inode", "path", "spelled")

    def __init__(self, spelled: str, path: str, device: int, inode: int) -> None:
        self.spelled = spelled  # absolute, as the user wrote it
        self.path = path  # absolute, without links
        self.device = device  # 0: not compared
        self.inode = inode  # 0: there was nothing


def resolve_places(spelled: Iterable[str], known: Iterable[Place] = ()) -> list[Place]:
    """Pin each path as it is known, or else as it is now. Only here are links followed that the user chose.

    A link inside one of these places that leads out of it is not followed, because any program that may write there may have made
    it.
    """
    found = {place.spelled: place for place in known}
    names = list(dict.fromkeys(_normal(path) for path in spelled))
    for name in sorted(names, key=len):
        if name not in found:
            found[name] = _resolve(name, [found[other] for other in names if other in found])
    return [found[name] for name in names]


def _resolve(spelled: str, others: list[Place]) -> Place:
    real = real_paths([spelled])[0]
    for other in others:
        for outer in {other.spelled, other.path}:
            if is_within(spelled, outer) and not is_within(real, other.path):
                return Place(spelled, other.path.rstrip("/") + spelled[len(outer.rstrip("/")) :], 0, 0)
    return look(spelled, real)


def look(spelled: str, path: str) -> Place:
    """The identity of what is at a real path now. If a link appears on the way meanwhile, opening the place will fail."""
    try:
        status = os.lstat(path)
    except OSError:
        return Place(spelled, path, 0, 0)
    if stat.S_ISLNK(status.st_mode):
        return Place(spelled, path, 0, 0)
    return Place(spelled, path, status.st_dev, status.st_ino)


def _normal(path: str) -> str:
    normal = os.path.normpath(path)
    return normal[1:] if normal.startswith("//") else normal  # POSIX lets two leading slashes be special; here they are not


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it; both absolute and normal."""
    return folder == "/" or path == folder or path.startswith(folder + "/")
