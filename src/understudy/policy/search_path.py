"""Which programs a search path would take from the project itself. Looks at the disk."""

import os
from collections.abc import Iterable
from functools import lru_cache

from understudy.policy.harmless import PROGRAMS
from understudy.policy.readable import is_inside, resolve


def planted_programs(search_path: str | None, cwd: str, project: tuple[str, ...], others: Iterable[str] = ()) -> frozenset[str]:
    """Names of harmless programs, or of `others`, that stand in a folder of `search_path` inside the project, or relative to `cwd`.

    A repository may bring its own `ls`. Its author, or a command before this one, wrote it, so its name says nothing.
    """
    wanted = PROGRAMS.union(name for name in others if "/" not in name and "\0" not in name)
    planted: frozenset[str] = frozenset()
    for entry in (search_path or "").split(":"):
        folder = resolve(entry or ".", cwd)  # an empty entry is the current folder
        if not entry.startswith("/") or is_inside(folder, project) or is_inside(_real(folder), project):
            planted |= {name for name in wanted if os.path.lexists(os.path.join(folder, name))}
    return planted


@lru_cache(maxsize=256)
def _real(folder: str) -> str:
    return os.path.realpath(folder)
