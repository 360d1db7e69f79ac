"""Opens files whose content a model will be given, and knows the file systems that are never opened."""

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from understudy.places.masks import Identity, Masks
from understudy.places.resolving import is_within
from understudy.places.walking import ANYTHING

KERNEL = ("/proc", "/sys", "/dev", "/run", "/var/run")
_MOUNTS = "/proc/self/mountinfo"
_PROCESSES = ("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "nsfs", "mqueue", "autofs")
_KNOBS = (
    "securityfs",
    "debugfs",
    "tracefs",
    "configfs",
    "efivarfs",
    "bpf",
    "pstore",
    "fusectl",
    "binfmt_misc",
    "selinuxfs",
    "nfsd",
)
_KINDS = frozenset((*_PROCESSES, *_KNOBS, "rpc_pipefs", "hugetlbfs"))


class Unreadable:
    """Known by path and by device, because such a file system may be mounted anywhere."""

    def __init__(self, folders: Iterable[str] = KERNEL, roots: Iterable[str] = ()) -> None:
        """`roots`: folders in which the user works; they can be read wherever they are."""
        self._folders = tuple(folders)
        self._roots = tuple(roots)

    def covers(self, path: str, device: int) -> bool:
        """Whether this absolute, real path, whose file has this device, is unreadable."""
        if device in _kernel_devices():
            return True
        return any(is_within(path, folder) for folder in self._folders) and not any(is_within(path, root) for root in self._roots)


@lru_cache(maxsize=1)
def _kernel_devices() -> frozenset[int]:
    found: set[int] = set()
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                if after.partition(" ")[0] in _KINDS:
                    major, _, minor = before.split(" ")[2].partition(":")
                    found.add(os.makedev(int(major), int(minor)))
    except (OSError, ValueError, IndexError):
        pass  # not Linux, where these paths do not exist either
    return frozenset(found)


_MOST_LINKS = 40
_MOST_FOLDERS = 256
logger = logging.getLogger(__name__)

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO must not block us


class NotForModels(Exception):
    """It must not be given to a model. The text says why, for the log or the model."""


class LeadsElsewhere(Exception):
    """A link is on the way, and links were not to be followed."""


class ReadLimits:
    """What is not read for a model, besides everything that is not a regular file."""

    def __init__(
        self,
        masks: Masks,
        unreadable: Unreadable | None = None,
        pins: Mapping[str, Identity] | None = None,
        *,
        hidden: set[Identity] | None = None,
        follow: bool = True,
    ) -> None:
        """`pins`: device and inode that these real paths must have; an inode of 0 is not compared. `hidden`: the masked files, if
        the caller has just looked them up. `follow` links, or raise `LeadsElsewhere`.
        """
        self.masks = masks
        self.unreadable = unreadable or Unreadable(())
        self.pins = pins or {}
        self.hidden = hidden
        self.follow = follow


def open_for_model(
    path: str, limits: Masks | ReadLimits, *, within: str = "/", base: str = "/", opened_base: int | None = None
) -> int:
    """A regular file, opened for reading; the caller closes it. Links are followed, but not out of the folder `within`.

    `base`: a real folder that acts as the root of the path; `opened_base`: the same folder, open, for a caller who cannot reach it.
    Raises `NotForModels`, or OSError if it cannot be opened.
    """
    if base == "/":
        os.lstat(path)  # most files that are looked for do not exist, which this finds for a tenth of the walk's cost
    with JudgedWalk(limits if isinstance(limits, ReadLimits) else ReadLimits(limits), base, opened_base) as walk:
        walk.go(path)
        if not is_within(walk.path, within):
            raise NotForModels(f"{path} is a link to a place outside its project")
        walk.judge_place(path)
        return walk.open(path)


def read_for_model(path: str, masks: Masks, most: int, *, within: str = "/") -> bytes:
    """The first bytes of such a file."""
    with open(open_for_model(path, masks, within=within), "rb") as file:
        return file.read(most)


Act = Callable[[Callable[[], bytes]], bytes]


def read_or_tell(path: str, most: int, masks: Masks, within: str = "/", act: Act = lambda work: work()) -> bytes | None:
    """The head of a plain file; None for anything else. `act` opens it with the rights of the user who should read it.

    A project's file may be a link only to a place in that project: the text is sent to the model, so a link to a secret elsewhere
    must not be followed.
    """
    try:
        return act(lambda: read_for_model(path, masks, most, within=within))
    except FileNotFoundError:
        return None
    except NotForModels as error:
        logger.warning("%s was not read: %s", path, error)
        return None
    except OSError as error:
        logger.warning("%s was not read: %s", path, error.strerror)
        return None


class JudgedWalk:
    """Opens a path name by name, so that the checks apply to exactly what was opened."""

    def __init__(self, limits: ReadLimits, base: str = "/", opened_base: int | None = None) -> None:
        self._limits = limits
        self._hidden = limits.masks.identities() if limits.hidden is None else limits.hidden
        self._base = base
        self._opened_base = opened_base
        self._in_base = base != "/"
        self._way: list[tuple[str, int]] = []
        self._links = 0

    def __enter__(self) -> "JudgedWalk":
        return self

    def __exit__(self, *_: object) -> None:
        while self._way:
            os.close(self._way.pop()[1])

    @property
    def path(self) -> str:
        return "/" + "/".join(name for name, _ in self._way[1:])

    @property
    def reached(self) -> int:
        """A descriptor of where the walk is. It stays open as long as the walk."""
        return self._way[-1][1]

    def go(self, path: str) -> None:
        """Walk to the absolute path, following links."""
        pending = _names(path)
        self._restart(self._opened_base, self._base)
        while pending:
            name = pending.pop()
            if name == "..":
                if len(self._way) > 1:
                    os.close(self._way.pop()[1])
                continue
            target = self._enter(name)
            if target is not None:
                if target.startswith("/"):
                    self._in_base = False
                    self._restart(None)
                pending += _names(target)

    def judge_place(self, path: str) -> None:
        """Raises `NotForModels` for the place that was reached. The base is our own, so only places outside it are judged by
        path."""
        device = os.fstat(self.reached).st_dev
        if not self._in_base and (masked := self._limits.masks.covering(self.path)) is not None:
            raise NotForModels(f"{path} is masked by {masked}")
        if self._limits.unreadable.covers("/" if self._in_base else self.path, device):
            raise NotForModels(f"{path} is not part of what a command could read, or belongs to the kernel")

    def _restart(self, opened: int | None, path: str = "/") -> None:
        self.__exit__()
        self._way.append(("", os.open(path, ANYTHING) if opened is None else os.dup(opened)))

    def _enter(self, name: str) -> str | None:
        """Take one step. For a link, return its target and do not enter."""
        parent = self._way[-1][1]
        found = os.open(name, ANYTHING, dir_fd=parent)
        try:
            status = os.fstat(found)
            self._judge(status, name)
            if stat.S_ISLNK(status.st_mode):
                if not self._limits.follow:
                    raise LeadsElsewhere
                self._links += 1
                if self._links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                return os.readlink(name, dir_fd=parent)
            if len(self._way) > _MOST_FOLDERS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            self._way.append((name, found))
            found = -1
            self._check_pin(status)
            return None
        finally:
            if found >= 0:
                os.close(found)

    def _check_pin(self, status: os.stat_result) -> None:
        device, inode = self._limits.pins.get(self.path, (0, 0)) if self._limits.pins and not self._in_base else (0, 0)
        if inode and (status.st_ino != inode or (device and status.st_dev != device)):
            raise NotForModels(f"{self.path} is not what stood there when this conversation began")

    def _judge(self, status: os.stat_result, name: str) -> None:
        if (status.st_dev, status.st_ino) in self._hidden:
            raise NotForModels(f"{name} is masked")

    def open(self, path: str) -> int:
        """Open what was reached for reading. Checked once more, because a masked file may just have been put there."""
        status = os.fstat(self._way[-1][1])
        if not stat.S_ISREG(status.st_mode):
            raise NotForModels(f"{path} is not a regular file")
        descriptor = os.open(self._way[-1][0], READ, dir_fd=self._way[-2][1])
        try:
            opened = os.fstat(descriptor)
            if not os.path.samestat(opened, status):
                raise NotForModels(f"{path} was replaced while it was read")
            masks = self._limits.masks
            self._hidden = masks.identities()
            self._judge(opened, path)
            if masks.may_hold(opened):
                raise NotForModels(f"{path} is, or may be, another name of a masked file")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _names(path: str) -> list[str]:
    """The parts of a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]
