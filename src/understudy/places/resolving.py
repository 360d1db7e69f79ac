"""From the folders that a user names to where they really are, once. Lean: the sandbox uses it without the rest."""

import os
import stat
from collections.abc import Iterable

from understudy.places.walking import real_paths


class Place:
    """A folder (or file) that the user named, and what stood there when it was pinned."""

    __slots__ = ("device", "inode", "path", "spelled")

    def __init__(self, spelled: str, path: str, device: int, inode: int) -> None:
        self.spelled = spelled  # absolute, as the user has it
        self.path = path  # absolute; no part of it was a link
        self.device = device  # 0: not compared
        self.inode = inode  # 0: nothing stood there


def resolve_places(spelled: Iterable[str], known: Iterable[Place] = ()) -> list[Place]:
    """Each path with what stands there now, or as it is known already. Links that the user chose are followed here, and only here.

    Not so a link inside another of these places that leads out of it: whatever may write there may have made it.
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
    """What stands at a real path now. Should a link come to be on the way just then, whoever opens the place is refused."""
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
    """Whether `path` is `folder` or beneath it; both absolute and normal."""
    return folder == "/" or path == folder or path.startswith(folder + "/")
