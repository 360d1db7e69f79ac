"""The kernel calls that Python has no function for, through ctypes. Each raises OSError with what it was doing."""

import ctypes
import os

from .syscalls import machine, numbers_for

# PyDLL keeps the interpreter lock: `clone` must return in the child with the lock still ours.
_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_long = ctypes.c_long

NUMBERS = numbers_for(machine()) if machine() in ("x86_64", "aarch64") else {}

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
AT_SYMLINK_NOFOLLOW = 0x100
OPEN_TREE_CLONE = 1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 2

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWTIME = 0x00000080
CLONE_PIDFD = 0x00001000
SIGCHLD = 17

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_SECUREBITS = 28
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_LAST_CAPABILITY = 63

SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4


def call(name: str, *arguments: "int | ctypes.Array[ctypes.c_char] | bytes | ctypes.Structure | None", doing: str = "") -> int:
    """Make one system call. Pointers are passed as bytes, buffers or structures."""
    number = NUMBERS.get(name)
    if number is None:
        raise OSError(38, f"{doing or name}: no such system call on this machine")
    converted = [_argument(value) for value in arguments]
    result = _syscall(_long(number), *converted)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{doing or name}: {os.strerror(error)}")
    return result


def _argument(value: "int | ctypes.Array[ctypes.c_char] | bytes | ctypes.Structure | None") -> object:
    if isinstance(value, int):
        return _long(value)
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    return value


def clone(flags: int) -> tuple[int, int]:
    """Fork with `flags`; (0, -1) in the child, (pid, pidfd) in the parent.

    Only for a process with one thread: the interpreter's own after-fork steps do not run in the child.
    """
    pidfd = ctypes.c_int(-1)
    pid = _syscall(
        _long(NUMBERS["clone"]),
        _long(flags | CLONE_PIDFD | SIGCHLD),
        _long(0),
        ctypes.byref(pidfd),
        _long(0),
        _long(0),
    )
    if pid < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"clone: {os.strerror(error)}")
    return pid, (pidfd.value if pid else -1)


def prctl(option: int, *arguments: int) -> int:
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return call("prctl", option, *padded, doing=f"prctl {option}")


def mount(source: str, target: bytes, kind: str, flags: int, options: str = "") -> None:
    call("mount", source.encode(), target, kind.encode(), flags, options.encode() or None, doing=f"mount {_show(target)}")


def unmount(target: bytes) -> None:
    call("umount2", target, MNT_DETACH, doing=f"unmount {_show(target)}")


def open_tree(path: bytes, *, directory: int = AT_FDCWD, recursive: bool = True, follow: bool = True) -> int:
    """A detached copy of the mounts at `path`, to be put somewhere with `attach`."""
    flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (AT_RECURSIVE if recursive else 0)
    flags |= 0 if follow else AT_SYMLINK_NOFOLLOW
    flags |= 0 if path else AT_EMPTY_PATH
    return call("open_tree", directory, path, flags, doing=f"open {_show(path)}")


def attach(tree: int, target: bytes, *, directory: int = AT_FDCWD) -> None:
    flags = MOVE_MOUNT_F_EMPTY_PATH | (0 if target else MOVE_MOUNT_T_EMPTY_PATH)
    call("move_mount", tree, b"", directory, target, flags, doing=f"mount at {_show(target)}")


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def set_mount(path: bytes, *, directory: int = AT_FDCWD, add: int = 0, remove: int = 0, recursive: bool = True) -> None:
    flags = (AT_RECURSIVE if recursive else 0) | (0 if path else AT_EMPTY_PATH)
    attributes = _MountAttributes(add, remove, 0, 0)
    call("mount_setattr", directory, path, flags, attributes, ctypes.sizeof(attributes), doing=f"restrict {_show(path)}")


def _show(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace") or "a mount"


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("words", ctypes.c_uint32 * 6),)


def drop_capabilities() -> None:
    """Give up every capability for good, also for what is executed later."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # unknown to this kernel; or we lack CAP_SETPCAP, and no_new_privs keeps the bounding set out of reach
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CapabilityHeader(0x20080522, 0)
    call("capset", header, _CapabilityData(), doing="drop capabilities")


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Install a seccomp program; needs no_new_privs."""
    header = _Filter(len(program) // 8, program)
    try:  # without this flag kernels before 5.16 slow every filtered process down
        call("seccomp", SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, header, doing="seccomp")
    except OSError:
        call("seccomp", SECCOMP_SET_MODE_FILTER, 0, header, doing="seccomp")


def close_from(first: int) -> None:
    try:
        call("close_range", first, 0xFFFFFFFF, 0)
    except OSError:
        os.closerange(first, 65536)
