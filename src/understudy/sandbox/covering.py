"""Whether to change what stands at a path would take off what keeps a running command from it.

A mount lies over each protected name in a command's roots. It falls off when the name is replaced or removed, so whoever of us is
about to do that ends the command first. The process above the command sees what others do (`cell/exposure.py`).
"""

import os
from collections.abc import Iterator

from understudy.places.placeholders import is_placeholder
from understudy.places.walking import beneath
from understudy.sandbox.cell.plan import BUBBLEWRAP, FULL, Plan


def covers(plan: Plan, path: bytes) -> bool:
    """`path`: real and absolute; what stands there is to be made, replaced or removed."""
    if plan.shape not in (FULL, BUBBLEWRAP):
        return False  # nothing is mounted
    return any(path == kept or beneath(kept, path) or (beneath(path, kept) and is_placeholder(kept)) for kept in _kept(plan))


def _kept(plan: Plan) -> Iterator[bytes]:
    """Every path at which something is mounted, by its name and by where links lead."""
    for path in _named(plan):
        if any(beneath(path, root) and path != root for root in plan.roots) and os.path.lexists(path):
            yield path


def _named(plan: Plan) -> Iterator[bytes]:
    for name in (*plan.protected, *plan.kept):
        for spelled in [name] if name.startswith(b"/") else [os.path.join(root, name) for root in plan.roots]:
            yield from dict.fromkeys((os.path.normpath(spelled), os.path.realpath(spelled)))
