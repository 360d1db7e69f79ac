"""Paths of writable roots: which of them exist as they were pinned, and which are inside another."""

from understudy.places.walking import beneath, open_pinned

from . import kernel
from .plan import Plan


def beneath_any(path: bytes, parents: "list[bytes]") -> bool:
    return any(beneath(path, parent) for parent in parents)


def outermost(paths: "list[bytes]", covered: "list[bytes]") -> "list[bytes]":
    """Roots that are not inside another root, and those that a covered folder hides there."""
    return [path for path in paths if not any(path != other and shows(other, path, covered) for other in paths)]


def shows(root: bytes, path: bytes, covered: "list[bytes]") -> bool:
    """Whether the mount of `root` shows `path`."""
    hidden = any(beneath(path, folder) and beneath(folder, root) and folder != root for folder in covered)
    return beneath(path, root) and not hidden


def open_pins(plan: Plan) -> "dict[bytes, int]":
    """Opens every root and the workspace; skips missing ones. Raises OSError if a path leads to something else than was pinned."""
    opened: dict[bytes, int] = {}
    for path, (device, inode) in plan.pins.items():
        try:
            opened[path] = open_pinned(path, device, inode, kernel.open_plain)
        except FileNotFoundError:
            pass
    return opened
