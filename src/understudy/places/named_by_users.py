"""Resolves a path that a user wants written: follows links, except those that an agent or a repository may have made."""

import errno
import os
import stat
from collections.abc import Callable, Sequence

from understudy.places.resolving import is_within

_MOST_LINKS = 40
NOT_FOLLOWED = "{} is a link, in a folder that an agent may write to; name a file elsewhere"


def follow_links(path: str, is_agents: Callable[[str], bool]) -> tuple[str, str]:
    """The real folder, and the name in it, which may be missing. A link in a folder for which `is_agents` is true is not followed.

    Raises OSError, and ValueError if it is not a path.
    """
    pending = path.split("/")[::-1]
    folder, links = "/", 0
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            folder = os.path.dirname(folder)
            continue
        found = os.path.join(folder, name)
        try:
            is_link = stat.S_ISLNK(os.lstat(found).st_mode)
        except FileNotFoundError:
            if pending:
                raise
            return folder, name
        if is_link:
            links += 1
            if is_agents(folder) or links > _MOST_LINKS:
                raise OSError(errno.ELOOP, NOT_FOLLOWED.format(found))
            target = os.readlink(found)
            folder = "/" if target.startswith("/") else folder
            pending += target.split("/")[::-1]
        elif not pending:
            return folder, name
        else:
            folder = found
    return folder, ""


def is_in(folder: str, roots: Sequence[str]) -> bool:
    return any(is_within(folder, root) for root in roots)


def is_in_repository(folder: str) -> bool:
    """Whether a repository contains the folder, so that its content may not be the user's own."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD")):  # a file in a worktree or submodule
            return True
        folder, before = os.path.dirname(folder), folder
        if folder == before:
            return False
