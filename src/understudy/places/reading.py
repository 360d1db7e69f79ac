"""Opening a file whose content a model will be given.

Links are resolved here, name by name, so that every folder on the way and the file itself are judged by what was opened:
nothing masked is read under whatever name, and nothing that is exchanged meanwhile.
"""

import errno
import os
import stat

from understudy.places.masks import Masks
from understudy.places.resolving import is_within
from understudy.places.walking import ANYTHING

_MOST_LINKS = 40
_MOST_FOLDERS = 256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO must not hold us up


class NotForModels(Exception):
    """It is not to be given to a model. The text says why, for the log or the model."""


def open_for_model(path: str, masks: Masks, *, within: str = "/") -> int:
    """A regular file, opened for reading; the caller closes it. A link may lead to it, but not out of the folder `within`.

    Raises `NotForModels`, or OSError for what cannot be opened.
    """
    os.lstat(path)  # most that is looked for is not there: this tells so for a tenth of the walk's price
    with _Walk(masks) as walk:
        walk.go(path)
        if not is_within(walk.path, within):
            raise NotForModels(f"{path} is a link to a place outside its project")
        if (masked := masks.covering(walk.path)) is not None:
            raise NotForModels(f"{path} is masked by {masked}")
        return walk.open(path)


def read_for_model(path: str, masks: Masks, most: int, *, within: str = "/") -> bytes:
    """The head of such a file."""
    with open(open_for_model(path, masks, within=within), "rb") as file:
        return file.read(most)


class _Walk:
    def __init__(self, masks: Masks) -> None:
        self._masks = masks
        self._hidden = masks.identities()
        self._way: list[tuple[str, int]] = []
        self._links = 0

    def __enter__(self) -> "_Walk":
        return self

    def __exit__(self, *_: object) -> None:
        while self._way:
            os.close(self._way.pop()[1])

    @property
    def path(self) -> str:
        return "/" + "/".join(name for name, _ in self._way[1:])

    def go(self, path: str) -> None:
        """Walk to the absolute path, through the links on it."""
        pending = _names(path)
        self._restart()
        while pending:
            name = pending.pop()
            if name == "..":
                if len(self._way) > 1:
                    os.close(self._way.pop()[1])
                continue
            target = self._enter(name)
            if target is not None:
                if target.startswith("/"):
                    self._restart()
                pending += _names(target)

    def _restart(self) -> None:
        self.__exit__()
        self._way.append(("", os.open("/", ANYTHING)))

    def _enter(self, name: str) -> str | None:
        """One step. Where a link stands, nothing is entered, and its target returned."""
        parent = self._way[-1][1]
        found = os.open(name, ANYTHING, dir_fd=parent)
        try:
            status = os.fstat(found)
            self._judge(status, name)
            if stat.S_ISLNK(status.st_mode):
                self._links += 1
                if self._links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                return os.readlink(name, dir_fd=parent)
            if len(self._way) > _MOST_FOLDERS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            self._way.append((name, found))
            found = -1
            return None
        finally:
            if found >= 0:
                os.close(found)

    def _judge(self, status: os.stat_result, name: str) -> None:
        if (status.st_dev, status.st_ino) in self._hidden:
            raise NotForModels(f"{name} is masked")

    def open(self, path: str) -> int:
        """What was walked to, for reading. Judged once more: what is masked may just have come to be there."""
        status = os.fstat(self._way[-1][1])
        if not stat.S_ISREG(status.st_mode):
            raise NotForModels(f"{path} is not a regular file")
        descriptor = os.open(self._way[-1][0], _READ, dir_fd=self._way[-2][1])
        try:
            opened = os.fstat(descriptor)
            if not os.path.samestat(opened, status):
                raise NotForModels(f"{path} was replaced while it was read")
            self._hidden = self._masks.identities()
            self._judge(opened, path)
            if self._masks.may_hold(opened):
                raise NotForModels(f"{path} is, or may be, another name of a masked file")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _names(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]
