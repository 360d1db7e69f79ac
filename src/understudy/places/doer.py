"""Whose rights our process has in what it does for a model: those of whoever a command of that conversation would be.

A server of root runs contained commands as the workspace's owner, or, where that is root too, as root without a single power.
What it opens, makes, renames and deletes itself for a model is done by a thread that has put everything else away meanwhile
(`thread_rights.py`), and does nothing else until it has its own rights again. It remains the server's own user in all but access
to files, so that nobody who has the doer's rights may reach into our memory. A server without powers has nothing to put away,
and pays nothing.
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
    """A user, by number; `with_groups`: has the server's own groups too."""

    uid: int
    gid: int
    with_groups: bool = False

    def act(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, with these rights.

        Raises PermissionError where they cannot be taken on: then nothing is done. Nothing may be imported in there, since our own
        code may be out of the doer's reach.
        """
        doing = getattr(_this_thread, "doer", None)
        if doing == self:
            return work()
        if doing is not None:
            raise PermissionError(1, "this is done with the rights of one user, so nothing in it can be done with another's")
        _forbid_imports()
        from understudy.places.thread_rights import borrowed  # few servers are root

        with borrowed(self.uid, self.gid, keep_groups=self.with_groups):
            _this_thread.doer = self
            try:
                return work()
            finally:
                _this_thread.doer = None


def owner_of(workspace: str) -> tuple[int, int] | None:
    """Whose rights a command takes when the server is root: those of the workspace's owner, unless that is root too."""
    if os.geteuid() != 0:
        return None
    try:
        entry = os.stat(workspace)
    except OSError:
        return None  # the command itself will find no such folder
    if entry.st_uid == 0:
        return None
    import pwd  # few servers are root

    try:
        return entry.st_uid, pwd.getpwuid(entry.st_uid).pw_gid
    except KeyError:
        return entry.st_uid, entry.st_gid


def doer_in(workspace: str) -> Doer | None:
    """Who a contained command in the workspace would be; None: whoever we are."""
    if not has_powers():
        return None
    owner = owner_of(workspace)
    return Doer(os.geteuid(), os.getegid(), with_groups=True) if owner is None else Doer(*owner)


@cache
def has_powers() -> bool:
    """Whether we may do more than our user: as root, or by capabilities that a command does not keep."""
    if sys.platform != "linux":
        return False  # nobody else's rights are taken on there, by commands neither
    if os.geteuid() == 0:
        return True
    try:
        with open(_STATUS, encoding="ascii", errors="replace") as file:
            lines = dict(line.split(":", 1) for line in file if ":" in line)
        return int(lines["CapEff"], 16) != 0
    except (OSError, KeyError, ValueError):
        return False


class _NoImports:
    """The import system would remember for all threads what one of ours could not find."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if getattr(_this_thread, "doer", None) is not None:
            raise ImportError(f"{fullname} is to be imported before the rights of a doer are taken on", name=fullname)


@cache
def _forbid_imports() -> None:
    import hashlib  # what the work may need

    del hashlib
    sys.meta_path.insert(0, _NoImports())
