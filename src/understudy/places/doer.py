"""The rights that our own process uses when it works for a model: those that a command of the conversation would have.

A server run by root runs contained commands as the workspace's owner, or, if that is root too, as root without any capability. The
server's own opening, making, renaming and deleting of files for a model is done by a thread that gives up all other rights
meanwhile (`thread_rights.py`) and does nothing else. The process stays the server's user in all but access to files, so that nobody
with the doer's rights can reach into its memory. A server without special rights has nothing to give up and pays nothing.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_STATUS = "/proc/self/status"

_this_thread = threading.local()


class Doer(NamedTuple):
    """A user, by number; `with_groups`: also has the server's own groups."""

    uid: int
    gid: int
    with_groups: bool = False

    def act(self, work: Callable[[], T]) -> T:
        """Run `work` with these rights; returns or raises what it does.

        Raises PermissionError, before anything is done, if the rights cannot be taken on. `work` must not import anything, because
        the doer may be unable to read our own code.
        """
        doing = getattr(_this_thread, "doer", None)
        if doing == self:
            return work()
        if doing is not None:
            raise PermissionError(1, "this is done with the rights of one user, so nothing in it can be done with another's")
        _forbid_imports()
        from understudy.places.thread_rights import borrowed  # imported here because few servers are root

        with borrowed(self.uid, self.gid, keep_groups=self.with_groups):
            _this_thread.doer = self
            try:
                return work()
            finally:
                _this_thread.doer = None


def owner_of(workspace: str) -> tuple[int, int] | None:
    """Whose rights a command gets when the server is root: the workspace's owner's, unless that is root, too."""
    if os.geteuid() != 0:
        return None
    try:
        entry = os.stat(workspace)
    except OSError:
        return None  # the command itself will report the missing folder
    if entry.st_uid == 0:
        return None
    import pwd  # imported here because few servers are root

    try:
        return entry.st_uid, pwd.getpwuid(entry.st_uid).pw_gid
    except KeyError:
        return entry.st_uid, entry.st_gid


def doer_in(workspace: str) -> Doer | None:
    """Who a contained command in the workspace would be; None: the same user as we."""
    if not has_powers():
        return None
    owner = owner_of(workspace)
    return Doer(os.geteuid(), os.getegid(), with_groups=True) if owner is None else Doer(*owner)


@cache
def has_powers() -> bool:
    """Whether we have more rights than our user: as root, or by capabilities that a command does not keep."""
    if sys.platform != "linux":
        return False  # on such systems commands do not take on other users' rights either
    if os.geteuid() == 0:
        return True
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["CapEff"], 16) != 0
    except (OSError, KeyError, ValueError):
        return False


class _NoImports:
    """Forbids imports: the import system would remember for all threads that this one could not find a module."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if getattr(_this_thread, "doer", None) is not None:
            raise ImportError(f"{fullname} is to be imported before the rights of a doer are taken on", name=fullname)


@cache
def _forbid_imports() -> None:
    import hashlib  # imported now, because the work may need it

    del hashlib
    sys.meta_path.insert(0, _NoImports())
