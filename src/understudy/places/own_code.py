"""Our own program where a command could change it: what this process is made of, and from where it may load more.

A server imports modules as it needs them, with keys in its memory. So what lies in a writable root is protected there
like `.git`, and a folder that is itself a root is no place to look for modules at all.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from understudy.places.resolving import is_within
from understudy.places.walking import real_paths


def own_code(roots: Iterable[str]) -> tuple[str, ...]:
    """Folders and files of ours inside the roots, real and absolute, without those inside another one."""
    real_roots = real_paths(roots)
    parts = (
        os.path.dirname(os.path.dirname(__file__)),
        *(sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable, sys.pycache_prefix or ""),
        *sys.path,
    )
    absolute = [part for part in parts if os.path.isabs(part)]
    found = {*map(os.path.normpath, absolute), *real_paths(absolute)}
    inside = {path for path in found if any(path != root and is_within(path, root) for root in real_roots)}
    return tuple(sorted(path for path in inside if not any(path != other and is_within(path, other) for other in inside)))


def load_nothing_from(roots: Sequence[str]) -> None:
    """What is a writable root is not searched for modules any more. Ours are found by the package itself."""
    folders = {*roots, *map(_identity, roots)} - {None}
    sys.path[:] = [entry for entry in sys.path if entry not in folders and _identity(entry) not in folders]


def _identity(path: str) -> tuple[int, int] | None:
    """Of what stands there: this is done for every conversation, and real paths take six times as long."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
