"""Paths of writable roots: which of them are there, as they were pinned, and which lie inside another."""

from understudy.places.walking import beneath, open_pinned

from . import kernel
from .plan import Plan


def beneath_any(path: bytes, parents: "list[bytes]") -> bool:
    return any(beneath(path, parent) for parent in parents)


def outermost(paths: "list[bytes]", covered: "list[bytes]") -> "list[bytes]":
    """Those that do not lie inside another one, or that a covered folder hides there."""
    return [path for path in paths if not any(path != other and shows(other, path, covered) for other in paths)]


def shows(root: bytes, path: bytes, covered: "list[bytes]") -> bool:
    """Whether what is mounted at `root` has `path` in it."""
    hidden = any(beneath(path, folder) and beneath(folder, root) and folder != root for folder in covered)
    return beneath(path, root) and not hidden


def open_pins(plan: Plan) -> "dict[bytes, int]":
    """Every root and the workspace, opened; without those that are missing. Raises OSError where another thing stands."""
    opened: dict[bytes, int] = {}
    for path, (device, inode) in plan.pins.items():
        try:
            opened[path] = open_pinned(path, device, inode, kernel.open_plain)
        except FileNotFoundError:
            pass
    return opened
