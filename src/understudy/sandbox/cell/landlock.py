"""Landlock: what a process and its children may do to files, however they name them."""

import ctypes
import os

from . import kernel

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13  # version 2
TRUNCATE = 1 << 14  # version 3
IOCTL_DEV = 1 << 15  # version 5

_CHANGES = WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
DEVICE = WRITE_FILE | TRUNCATE | IOCTL_DEV

# Version 1 (before Linux 5.19) cannot allow moving files between folders. Where mounts do the work, Landlock is not worth that.
WITH_MOVES = 2

_TCP = 0b11  # bind and connect, version 4
_SCOPES = 0b11  # abstract unix sockets and signals, version 6

_KIND, _FOLDER, _LINK = 0o170000, 0o040000, 0o120000
_VERSION_QUERY = 1
_PATH_BENEATH = 1


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's Landlock version, 0 if it has none."""
    try:
        return kernel.landlock_create_ruleset(None, 0, _VERSION_QUERY)
    except OSError:
        return 0


def changes(abi: int) -> int:
    """All rights to change files that this version can grant or refuse."""
    return _CHANGES | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0) | (IOCTL_DEV if abi >= 5 else 0)


class Ruleset:
    """Refuses rights everywhere, then grants them below single paths, then enforces that."""

    def __init__(self, abi: int, *, reading: int, tcp: bool) -> None:
        """`reading`: also refuse these rights to read; `tcp`: refuse TCP."""
        self._handled = changes(abi) | reading
        attributes = _RulesetAttributes(self._handled, _TCP if tcp and abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        self.descriptor = kernel.landlock_create_ruleset(ctypes.addressof(attributes), size, 0)

    def allow(self, path: bytes, rights: int, *, follow: bool = True) -> None:
        """Grant `rights` at and below `path`, if it exists. Without `follow`, a link is granted nothing."""
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        except OSError:
            return
        self.allow_opened(parent, rights)
        os.close(parent)

    def allow_opened(self, parent: int, rights: int) -> None:
        kind = os.fstat(parent).st_mode & _KIND
        rights &= self._handled if kind == _FOLDER else self._handled & _FILE_RIGHTS
        if rights and kind != _LINK:
            rule = _PathBeneath(rights, parent)
            kernel.landlock_add_rule(self.descriptor, _PATH_BENEATH, ctypes.addressof(rule), 0)

    def allow_reading(self, folder: bytes, names: "list[bytes]") -> None:
        """Grant reading of these names in `folder`, and of what is below them; has no effect on links. There may be hundreds."""
        rights = self._handled & (READ_FILE | EXECUTE)
        rule = _PathBeneath(rights, -1)
        add = kernel.bare_landlock_add_rule(self.descriptor, _PATH_BENEATH, ctypes.addressof(rule))
        parent = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        for name in names:
            try:
                found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            except OSError:
                continue
            rule.parent = found
            if add() < 0:
                kernel.landlock_add_rule(self.descriptor, _PATH_BENEATH, ctypes.addressof(rule), 0)  # raises the error
            os.close(found)
        os.close(parent)

    def enforce(self) -> None:
        kernel.landlock_restrict_self(self.descriptor, 0)
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)
