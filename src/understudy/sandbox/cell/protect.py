"""Keeping protected names inside writable roots as they are: their content, their names, and their absence."""

import os
from collections.abc import Callable

from . import kernel
from .placeholder import hold, is_placeholder
from .roots import beneath

_KIND, _LINK = 0o170000, 0o120000
_EROFS = 30
_MOST_LINKS = 8
_ATTEMPTS = 20


class Protector:
    def __init__(self, roots: "list[bytes]", blank: Callable[[bytes], None]) -> None:
        """`blank` puts something empty and read-only over a path."""
        self._roots = roots
        self._blank = blank
        self.placeholders: list[bytes] = []
        self._held: list[int] = []

    def protect(self, names: "list[bytes]") -> None:
        for name in names:
            if name.startswith(b"/"):
                self._protect(os.path.normpath(name))
                continue
            for root in self._roots:
                self._protect(os.path.normpath(os.path.join(root, name)))

    def release(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def _protect(self, path: bytes, depth: int = 0) -> None:
        """A placeholder of a command that has just ended may be removed while we look: then look again."""
        vanished = FileNotFoundError()
        for _ in range(_ATTEMPTS):
            try:
                self._protect_what_is_there(path, depth)
            except FileNotFoundError as error:
                vanished = error
            else:
                return
        raise vanished

    def _protect_what_is_there(self, path: bytes, depth: int) -> None:
        root = next((root for root in self._roots if beneath(path, root) and path != root), None)
        if root is None or depth > _MOST_LINKS:
            return
        at = root
        names = path[len(root) :].strip(b"/").split(b"/")
        for index, name in enumerate(names):
            at = os.path.join(at, name)
            try:
                kind = os.lstat(at).st_mode & _KIND
            except FileNotFoundError:
                self._cover(at)
                return
            except NotADirectoryError:
                return  # a root that is a file has no names in it
            if kind == _LINK:
                self._pin(at)
                self._protect(os.path.realpath(os.path.join(at, *names[index + 1 :])), depth + 1)
                return
            if index < len(names) - 1:
                self._pin(at)
        if is_placeholder(at):
            self._cover(at)
            return
        self._freeze(at)
        for folder in _git_folders(at):
            self._protect(folder, depth + 1)

    def _cover(self, path: bytes) -> None:
        try:
            held = hold(path)
        except PermissionError:
            return  # the command has no right to create it either
        except OSError as error:
            if error.errno == _EROFS:
                return
            raise
        if held is None:
            self._freeze(path)
            return
        self._held.append(held)
        self.placeholders.append(path)
        self._blank(path)

    def _pin(self, path: bytes) -> None:
        """Make a name a mount point, which cannot be renamed or removed; a link too."""
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        tree = kernel.open_tree(b"", directory=descriptor)
        kernel.attach(tree, b"", directory=descriptor)
        os.close(descriptor)

    def _freeze(self, path: bytes) -> None:
        tree = kernel.open_tree(path, follow=False)
        kernel.set_mount(b"", kernel.MOUNT_ATTR_RDONLY, directory=tree)
        kernel.attach(tree, path)


def _git_folders(path: bytes) -> "list[bytes]":
    """Where the `.git` file of a worktree or submodule points to."""
    if os.path.basename(path) != b".git":
        return []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        content = os.read(descriptor, 4096)
        os.close(descriptor)
    except OSError:
        return []  # the usual folder
    if not content.startswith(b"gitdir:"):
        return []
    folder = os.path.realpath(os.path.join(os.path.dirname(path), content[7:].strip()))
    parent = os.path.dirname(folder)
    return [folder, os.path.dirname(parent)] if os.path.basename(parent) == b"worktrees" else [folder]
