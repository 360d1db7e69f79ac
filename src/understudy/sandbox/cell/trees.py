"""Removes and measures folders that commands have filled, whatever is in them.

Uses no recursion and only single names, follows no links, and starts from an open folder. So depth, odd names, links and missing
rights do not matter, and a few descriptors are enough.
"""

import os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_USABLE = 0o700
_ASIDE = ".gone-"
_KIND, _IS_FOLDER = 0o170000, 0o040000
_ROUNDS = 1_000_000  # one for each level of depth; ends even if another process keeps filling the folder


def remove(path: "str | bytes") -> bool:
    """Remove a folder with all that is in it; False if some of it could not be removed. Raises nothing."""
    try:
        emptied = empty(path)
        os.rmdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return not os.path.lexists(path)
    except OSError:
        return False
    return emptied


def set_aside(path: str) -> None:
    """Move a folder away at once; `remove_set_aside` removes it later, perhaps in another process. Raises nothing."""
    folder, name = os.path.split(path)
    try:
        os.rename(path, os.path.join(folder, f"{_ASIDE}{os.urandom(4).hex()}-{name}"))
    except OSError:
        pass  # it does not exist


def remove_set_aside(folder: str) -> bool:
    """Remove what was set aside in `folder`, now or before a crash; False if some of it could not be removed."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(_ASIDE)]
    except OSError:
        return True
    removed = [remove(os.path.join(folder, name)) for name in names]
    return all(removed)


def empty(path: "str | bytes") -> bool:
    """Remove all that is in a folder; False if that failed. Raises OSError if it cannot be opened."""
    top = _open(None, path)
    try:
        return _empty(top)
    finally:
        os.close(top)


def _empty(top: int) -> bool:
    """Inner folders are moved up into `top` and emptied in turn, so depth costs nothing."""
    fresh = _FreshNames()
    for _ in range(_ROUNDS):
        found = removed = 0
        with os.scandir(top) as entries:
            for entry in entries:
                found += 1
                removed += _clear_away(top, entry.name, top, fresh)
        if not found:
            return True
        if not removed:
            return False
    return False


def _clear_away(folder: int, name: str, top: int, fresh: "_FreshNames") -> bool:
    """Remove an entry of `top`; or remove an entry of a folder in it, or move that up."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:  # a folder: EISDIR, on some systems EPERM
        try:
            return _clear_folder(name, top, fresh) if folder == top else _move_up(folder, name, top, fresh())
        except OSError:
            return False
    return True


def _clear_folder(name: str, top: int, fresh: "_FreshNames") -> bool:
    inner = _open(top, name)
    try:
        with os.scandir(inner) as entries:
            for entry in entries:
                _clear_away(inner, entry.name, top, fresh)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)
    return True


def _move_up(folder: int, name: str, top: int, to: str) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)  # usually it is empty, or not yet accessible: both are quick
    except OSError:
        pass
    else:
        return True
    try:
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=top)
    except PermissionError:  # moving it changes its `..`, so it must be writable itself
        os.close(_open(folder, name))
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=top)
    return True


class _FreshNames:
    def __init__(self) -> None:
        self._prefix = os.urandom(8).hex()
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"{self._prefix}.{self._count}"


def _open(parent: "int | None", name: "str | bytes") -> int:
    """Open a folder to read and change it, giving its owner missing rights."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        _make_usable(parent, name)
        return os.open(name, _FOLDER, dir_fd=parent)
    if os.fstat(descriptor).st_mode & _USABLE != _USABLE:
        try:
            os.fchmod(descriptor, _USABLE)
        except OSError:
            pass  # if it matters, a later call fails and is reported
    return descriptor


def _make_usable(parent: "int | None", name: "str | bytes") -> None:
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, _USABLE, dir_fd=parent, follow_symlinks=False)
        return
    place = os.open(name, _PLACE, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", _USABLE)
    finally:
        os.close(place)


Identity = tuple[int, int]  # device and inode


def identities(paths: "list[bytes]") -> "list[Identity]":
    """Device and inode of the paths that exist."""
    found: list[Identity] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append((status.st_dev, status.st_ino))
    return found


def measure(
    path: "str | bytes", *, most_bytes: int, most_files: int, open_all: bool, skipped: "frozenset[Identity]" = frozenset()
) -> "tuple[int, int]":
    """Bytes on the disk and number of entries below a folder. Stops as soon as either is more than `most`.

    Leaves out other file systems and the `skipped` folders. `open_all`: give ourselves the rights to see into every folder;
    otherwise closed folders count as empty. Raises OSError if the folder itself cannot be opened.
    """
    walk = _Walk(most_bytes, most_files, skipped, open_all=open_all)
    try:
        walk.run(path)
    finally:
        walk.close()
    return walk.bytes, walk.files


class _Walk:
    """Descends by names and returns by "..", checking that it is back where it came from, because a folder may be moved
    meanwhile."""

    def __init__(self, most_bytes: int, most_files: int, skipped: "frozenset[Identity]", *, open_all: bool) -> None:
        self._skipped = skipped
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._open_all = open_all
        self._at = -1
        self._device = -1
        self._linked: set[int] = set()  # files with several names that were counted already
        self.bytes = 0
        self.files = 0

    def run(self, path: "str | bytes") -> None:
        self._at = self._enter(None, path)
        self._device = os.fstat(self._at).st_dev
        above: list[tuple[list[str], int]] = []  # for each folder on the way: subfolders still to visit, and its inode
        names = self._look()
        while not self._is_over():
            if names:
                try:
                    inner = self._enter(self._at, names.pop())
                except OSError:
                    continue  # gone, or we may not look
                above.append((names, os.fstat(self._at).st_ino))
                self._move_to(inner)
                names = self._look()
            elif above:
                names, inode = above.pop()
                if not self._go_up(inode):
                    return  # it was moved meanwhile; what was counted so far is the least
            else:
                return

    def _go_up(self, inode: int) -> bool:
        try:
            self._move_to(os.open("..", _FOLDER, dir_fd=self._at))
        except OSError:
            return False
        return os.fstat(self._at).st_ino == inode

    def _look(self) -> "list[str]":
        folders: list[str] = []
        with os.scandir(self._at) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if status.st_dev != self._device or (status.st_dev, status.st_ino) in self._skipped:
                    continue
                self.files += 1
                if status.st_mode & _KIND == _IS_FOLDER:
                    folders.append(entry.name)
                elif status.st_nlink > 1:
                    if status.st_ino in self._linked:
                        continue
                    self._linked.add(status.st_ino)
                self.bytes += status.st_blocks * 512
                if self._is_over():
                    break
        return folders

    def _is_over(self) -> bool:
        return self.bytes > self._most_bytes or self.files > self._most_files

    def _enter(self, parent: "int | None", name: "str | bytes") -> int:
        if self._open_all:
            return _open(parent, name)
        descriptor = os.open(name, _FOLDER, dir_fd=parent)
        try:
            os.stat("..", dir_fd=descriptor)  # otherwise there would be no way back
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def _move_to(self, descriptor: int) -> None:
        os.close(self._at)
        self._at = descriptor

    def close(self) -> None:
        if self._at >= 0:
            os.close(self._at)
