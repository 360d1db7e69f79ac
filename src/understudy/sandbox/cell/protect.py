"""Protects names inside writable roots: keeps protected ones as they are, hides masked ones, and keeps the paths to both. Walks
from the mounted roots by descriptor, so that renaming things meanwhile cannot mislead it."""

import os
from collections.abc import Callable

from understudy.places.placeholders import is_placeholder
from understudy.places.walking import ANYTHING, beneath, real_paths

from . import kernel
from .exposure import Kept
from .placeholder import hold

_KIND, _LINK, _FOLDER = 0o170000, 0o120000, 0o040000
_ENOENT, _EROFS, _ESTALE = 2, 30, 116
_MOST_LINKS = 8
_MOST_LINKS_ON_A_WAY = 40  # as the kernel
_ATTEMPTS = 20


class Protector:
    """`roots`: the outermost ones, and those mounted in a covered folder of one; each with a descriptor of its mount."""

    def __init__(self, roots: "list[tuple[bytes, int]]", blanks: "dict[int, bytes]") -> None:
        """`blanks`: something empty and read-only to cover a folder, and to cover anything else, by kind."""
        self._roots = sorted(roots, key=lambda root: len(root[0]), reverse=True)
        self._blanks = blanks
        self._shown: dict[bytes, tuple[int, int]] = {}  # what is seen at each blank
        self._pinned: dict[bytes, int] = {}  # mounts over single names, by path
        self._covered: dict[bytes, tuple[int, int]] = {}  # every path with a mount on it, and what is seen there since
        self.placeholders: list[bytes] = []
        self._held: list[int] = []

    def protect(self, names: "list[bytes]", folders: "list[bytes]") -> None:
        """Protect names inside every one of `folders`, or absolute paths. Paths outside the roots cannot be changed anyway."""
        spellings = _spellings([name for name in names if name.startswith(b"/")])
        for name in names:
            for path in spellings[name] if name in spellings else [os.path.join(folder, name) for folder in folders]:
                self._again(self._protect, os.path.normpath(path))

    def keep(self, names: "list[bytes]", folders: "list[bytes]") -> None:
        """Protect only the names that exist; others can still be created."""
        for path in [os.path.join(folder, name) for name in names for folder in folders]:
            if os.path.lexists(path):
                self._again(self._protect, os.path.normpath(path))

    def pin(self, path: bytes) -> None:
        """Keep the folder, and those above it, from being renamed, removed or replaced."""
        self._again(self._pin_way, path)

    def hide(self, path: bytes) -> bool:
        """Cover a path in a root, even if it is missing now; False if it is in no root."""
        if self._root_of(path) is None:
            return False
        self._again(self._hide, path)
        return True

    def pin_links(self, path: bytes) -> None:
        """Keep the links that name a masked path: otherwise another link could make the path lead elsewhere."""
        for link in links_on(path):
            self.pin(link)

    def mounted(self) -> "list[Kept]":
        """What was mounted on names in the roots, with their folders as seen from here."""
        folders = dict(self._roots) | self._pinned
        return [(path, folders[os.path.dirname(path)], os.path.basename(path), shown) for path, shown in self._covered.items()]

    def release(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def _again(self, step: Callable[[bytes], None], path: bytes) -> None:
        """Repeat the step when something vanishes or appears meanwhile, such as a placeholder whose command has ended."""
        vanished = FileNotFoundError()
        for _ in range(_ATTEMPTS):
            try:
                step(path)
            except FileNotFoundError as error:
                vanished = error
            except NotADirectoryError:
                return  # the root is a file, and contains no names
            else:
                return
        raise vanished

    def _root_of(self, path: bytes) -> "tuple[bytes, int] | None":
        return next((root for root in self._roots if beneath(path, root[0]) and path != root[0]), None)  # the innermost

    def _protect(self, path: bytes, depth: int = 0) -> None:
        root = self._root_of(path)
        if root is None or depth > _MOST_LINKS:
            return
        at, folder = root
        names = path[len(at) :].strip(b"/").split(b"/")
        for index, name in enumerate(names):
            at = os.path.join(at, name)
            found = _open(folder, name)
            if found is None:
                self._cover_or_freeze(folder, name, at)
                return
            kind = os.fstat(found).st_mode & _KIND
            if kind == _LINK:
                os.close(found)
                for link in links_on(os.path.join(at, *names[index + 1 :])):
                    self._pin_way(link)
                self._protect(os.path.realpath(os.path.join(at, *names[index + 1 :])), depth + 1)
                return
            if index < len(names) - 1:
                if kind != _FOLDER:
                    os.close(found)
                    return  # a file contains no names
                folder = self._pin(found, at)
            elif is_placeholder(name, folder):
                self._cover_or_freeze(folder, name, at)
            else:
                self._freeze(found, at)
                self._protect_git_folder(folder, name, at, depth)
            os.close(found)

    def _protect_git_folder(self, parent: int, name: bytes, path: bytes, depth: int) -> None:
        """Protect what the `.git` file of a worktree or submodule names, and the links on the way there."""
        if (named := git_folder(path, name, parent)) is None:
            return
        for link in links_on(named):
            self._pin_way(link)
        folder = os.path.realpath(named)
        self._protect(folder, depth + 1)
        worktrees = os.path.dirname(folder)
        if os.path.basename(worktrees) == b"worktrees":
            self._protect(os.path.dirname(worktrees), depth + 1)

    def _pin_way(self, path: bytes) -> None:
        root = self._root_of(path)
        if root is None:
            return
        at, folder = root
        for name in path[len(at) :].strip(b"/").split(b"/"):
            at = os.path.join(at, name)
            found = _open(folder, name)
            if found is None:
                return
            folder = self._pin(found, at)
            is_folder = os.fstat(found).st_mode & _KIND == _FOLDER
            os.close(found)
            if not is_folder:
                return

    def _hide(self, path: bytes) -> None:
        root = self._root_of(path)
        assert root is not None
        at, folder = root
        names = path[len(at) :].strip(b"/").split(b"/")
        for index, name in enumerate(names):
            at = os.path.join(at, name)
            found = _open(folder, name)
            if found is None:
                if index == len(names) - 1:
                    self._cover_or_look_again(folder, name, at)
                return
            kind = os.fstat(found).st_mode & _KIND
            if index == len(names) - 1:
                if is_placeholder(name, folder):
                    self._cover_or_look_again(folder, name, at)
                elif kind == _LINK:
                    self._pin_loop(found, at)
                else:
                    self._blank(found, kind, at)
            elif kind == _LINK:
                self._pin_loop(found, at)
            else:
                folder = self._pin(found, at)
            os.close(found)
            if kind != _FOLDER:
                return

    def _pin_loop(self, found: int, path: bytes) -> None:
        """Masks are known by their real paths, so only a link that leads nowhere can be left. Any other has just been made."""
        if os.path.realpath(path) != path:
            raise OSError(_ESTALE, "another program replaced it just now", path)
        self._pin(found, path)

    def _cover_or_freeze(self, folder: int, name: bytes, path: bytes) -> None:
        if not self._cover(folder, name, path):
            found = os.open(name, ANYTHING, dir_fd=folder)
            self._freeze(found, path)
            os.close(found)

    def _cover_or_look_again(self, folder: int, name: bytes, path: bytes) -> None:
        """A masked path must be hidden, even if another program has created it a moment ago."""
        if not self._cover(folder, name, path):
            raise FileNotFoundError(_ENOENT, "another program makes it anew again and again", path)

    def _cover(self, folder: int, name: bytes, path: bytes) -> bool:
        """Cover a missing path with something empty. False if it exists after all."""
        try:
            held = hold(name, folder)
        except PermissionError:  # the folder belongs to another user, so the command cannot create the path either
            return _is_free(folder, name)
        except OSError as error:
            if error.errno == _EROFS:
                return _is_free(folder, name)
            raise
        if held is None:
            return False
        self._held.append(held)
        self.placeholders.append(path)
        self._blank(held, _FOLDER, path)
        return True

    def _blank(self, found: int, kind: int, path: bytes) -> None:
        blank = self._blanks[_FOLDER if kind == _FOLDER else 0]
        tree = kernel.open_tree(blank, recursive=False)
        kernel.attach(tree, b"", directory=found)
        if blank not in self._shown:
            self._shown[blank] = _identity(tree)
        self._covered[path] = self._shown[blank]
        os.close(tree)

    def _pin(self, found: int, path: bytes) -> int:
        """Make a name, even a link, a mount point, so that it cannot be renamed or removed. Returns the mount."""
        if path not in self._pinned:
            tree = kernel.open_tree(b"", directory=found)
            kernel.attach(tree, b"", directory=found)
            self._pinned[path] = tree
            self._covered[path] = _identity(tree)
        return self._pinned[path]

    def _freeze(self, found: int, path: bytes) -> None:
        tree = kernel.open_tree(b"", directory=found)
        kernel.set_mount(b"", kernel.MOUNT_ATTR_RDONLY, directory=tree)
        kernel.attach(tree, b"", directory=found)
        if path in self._pinned:
            os.close(self._pinned[path])
        self._covered[path] = _identity(tree)
        self._pinned[path] = tree  # it covers earlier mounts on this path, so later mounts inside must be made on this one


def _spellings(paths: "list[bytes]") -> "dict[bytes, list[bytes]]":
    """Absolute paths with their real paths: either may be inside a root."""
    normal = [os.path.normpath(path) for path in paths]
    real = map(os.fsencode, real_paths(map(os.fsdecode, normal)))
    return {path: list(dict.fromkeys(both)) for path, *both in zip(paths, normal, real, strict=True)}


def links_on(path: bytes) -> "list[bytes]":
    """Every link on the way to an absolute path, including the path itself; each with its real folder."""
    found: list[bytes] = []
    pending = path.split(b"/")[::-1]
    at = b""
    while pending and len(found) < _MOST_LINKS_ON_A_WAY:
        name = pending.pop()
        if name in (b"", b"."):
            continue
        if name == b"..":
            at = at.rpartition(b"/")[0]
            continue
        try:
            target = os.readlink(at + b"/" + name)
        except OSError:
            at += b"/" + name
            continue
        found.append(at + b"/" + name)
        pending += target.split(b"/")[::-1]
        if target.startswith(b"/"):
            at = b""
    return found


def _identity(descriptor: int) -> "tuple[int, int]":
    entry = os.fstat(descriptor)
    return entry.st_dev, entry.st_ino


def _open(folder: int, name: bytes) -> int | None:
    try:
        return os.open(name, ANYTHING, dir_fd=folder)
    except FileNotFoundError:
        return None


def _is_free(folder: int, name: bytes) -> bool:
    found = _open(folder, name)
    if found is not None:
        os.close(found)
    return found is None


def git_folder(path: bytes, name: bytes | None = None, parent: int | None = None) -> "bytes | None":
    """Where the `.git` file of a worktree or submodule points; None for an ordinary `.git` folder. `name`: its name in the open
    folder `parent`, if that is to be used instead of the path.
    """
    if os.path.basename(path) != b".git":
        return None
    try:
        descriptor = os.open(name or path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
        content = os.read(descriptor, 4096)
        os.close(descriptor)
    except OSError:
        return None
    if not content.startswith(b"gitdir:"):
        return None
    return os.path.join(os.path.dirname(path), content[7:].strip())
