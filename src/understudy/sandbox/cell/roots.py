"""Paths of writable roots: which are real, which lie inside another."""

import os


def beneath(path: bytes, parent: bytes) -> bool:
    return path == parent or parent == b"/" or path.startswith(parent + b"/")


def beneath_any(path: bytes, parents: "list[bytes]") -> bool:
    return any(beneath(path, parent) for parent in parents)


def resolve_roots(paths: "list[bytes]") -> "list[bytes]":
    """The real paths of the roots that exist, outermost only.

    A root inside another one adds nothing, and its name may have been turned into a link by an earlier command: so a
    path is never followed once it has entered a root.
    """
    roots: list[bytes] = []
    for path in sorted({os.path.normpath(path) for path in paths}, key=len):
        real = _resolve_outside(path, roots)
        if real is not None:
            roots.append(real)
    return [root for root in roots if not any(root != other and beneath(root, other) for other in roots)]


def _resolve_outside(path: bytes, roots: "list[bytes]", depth: int = 0) -> bytes | None:
    at = b"/"
    names = [name for name in path.split(b"/") if name]
    while names:
        if beneath_any(at, roots):
            return None
        step = os.path.join(at, names.pop(0))
        try:
            target = os.readlink(step)
        except OSError:
            at = step
            continue
        if depth > 40:
            return None
        return _resolve_outside(os.path.normpath(os.path.join(at, target, *names)), roots, depth + 1)
    if beneath_any(at, roots) or not os.path.lexists(at):
        return None
    return at
