"""Files that commands write: as a whole or not at all, readable only by their owner, and never through a link or onto a device."""

import fcntl
import glob
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from understudy.cli.ending import ending_tidily
from understudy.errors import BadRequest
from understudy.places.named_by_users import follow_links, is_in, is_in_repository

STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_ENDING = ".part"
_KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def is_stdout(name: str | None) -> bool:
    return name is None or name in STDOUT


def refuse_unless_writable(target: Path, *, may_replace: bool) -> None:
    """Raises `BadRequest` that says why nothing can be written there."""
    _refuse(_place_of(target), target, may_replace=may_replace)


def _refuse(place: Path, target: Path, *, may_replace: bool) -> None:
    try:
        mode = os.lstat(place).st_mode
    except FileNotFoundError:
        if not place.parent.is_dir():
            raise BadRequest(f"cannot write {target}: there is no folder {target.parent}") from None
        return
    except (OSError, ValueError) as error:
        raise BadRequest(f"cannot write {target}: {_reason(error)}") from None
    if not stat.S_ISREG(mode):
        kind = next((word for test, word in _KINDS if test(mode)), "a device")
        raise BadRequest(f"cannot write {target}: it is {kind}, and only files are written; name a file, or - for standard output")
    if not may_replace:
        raise BadRequest(f"{target} is there already and is not overwritten; name another file")


def _place_of(target: Path) -> Path:
    """Its real path. Links that an agent or a repository may have made are not followed. Raises `BadRequest`."""
    here = os.getcwd()
    roots = () if here in ("/", os.path.expanduser("~")) else (here,)
    try:
        parent = follow_links(str(here / target.parent), lambda folder: is_in(folder, roots) or is_in_repository(folder))
    except FileNotFoundError:
        return target  # missing folders are reported later
    except (OSError, ValueError) as error:
        raise BadRequest(f"cannot write {target}: {_reason(error)}") from None
    return Path(*parent, target.name)


@contextmanager
def new_file(target: Path, *, may_replace: bool) -> Generator[Path]:
    """An empty file beside the target, which replaces it when the block ends well. Raises `BadRequest`.

    Removes what an earlier run left there when it was killed.
    """
    place = _place_of(target)
    _refuse(place, target, may_replace=may_replace)
    part = place.parent / f".{_short(target.name)}.{secrets.token_hex(4)}{_ENDING}"
    with ending_tidily():
        try:
            with _created(part) as file:
                _remove_abandoned(place, part)
                yield part
                os.fsync(file.fileno())
                if _place_of(target) != place:
                    raise BadRequest(f"cannot write {target}: it leads elsewhere than when this began")
                _put_in_place(part, place, target, may_replace=may_replace)
        except (OSError, ValueError) as error:
            raise BadRequest(f"cannot write {target}: {_reason(error)}") from None
        finally:
            _remove(part)


def _created(part: Path) -> BinaryIO:
    """Its lock shows that somebody is writing it."""
    while True:
        file = open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "rb")  # noqa: SIM115
        _lock(file.fileno())
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # another run took it for abandoned before it was locked


def _put_in_place(part: Path, place: Path, target: Path, *, may_replace: bool) -> None:
    _refuse(place, target, may_replace=may_replace)  # it may be something else by now
    if may_replace:
        os.replace(part, place)
        return
    try:
        os.link(part, place)  # fails if the file exists; a rename would not
    except FileExistsError:
        raise BadRequest(f"{target} is there already and is not overwritten; name another file") from None
    except OSError:  # the file system has no hard links
        os.rename(part, place)


def _remove_abandoned(target: Path, ours: Path) -> None:
    for other in target.parent.glob(f".{glob.escape(_short(target.name))}.????????{_ENDING}"):
        if other == ours:
            continue
        with suppress(OSError):
            descriptor = os.open(other, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb"):
                found = os.fstat(descriptor)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and _lock(descriptor):
                    _remove(other)


def _lock(descriptor: int) -> bool:
    """False if another process has the lock. The kernel frees it when its holder ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(part: Path) -> None:
    for name in (part, *(part.with_name(part.name + ending) for ending in ("-journal", "-wal", "-shm"))):  # SQLite's, of a copy
        with suppress(OSError):
            os.unlink(name)


def _short(name: str) -> str:
    return name[:40]  # names can have 255 bytes, and ours is longer than the target's


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
