"""Unix sockets of servers: made only where no other server's socket is, and removed at the end if still ours. Also identifies the
connecting process.

A socket appears under its name in one step, with its mode, once it listens; so nobody finds one that is too open or not ready.
"""

import fcntl
import grp
import os
import pwd
import re
import socket
import stat
import struct
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from understudy.errors import ConfigError

_BACKLOG = 2048
_LONGEST = 100  # bytes: every system takes so many, including room for the socket's temporary name
_ANSWER_SECONDS = 2.0
_LOCK_SECONDS = 3.0  # how long another server may take to begin; in a folder such as /tmp anybody can hold the lock
_LOCK_PAUSE = 0.02
_NAMESPACES = re.compile(r"^NSpid:\t(.*)$", re.MULTILINE)
_LINUX = struct.Struct("=iII")
_BSD = struct.Struct("=II")  # version and user of `struct xucred`; its groups follow
_BSD_BYTES = 76


class UnixSocket:
    def __init__(self, path: Path, *, group: str | None = None, shared: bool = False) -> None:
        """Listens. `shared`: that group, or by default our own, may connect. Raises `ConfigError`."""
        self.path = path
        if len(os.fsencode(path)) > _LONGEST:
            raise ConfigError(f"the path {path} is too long for a socket, which may have {_LONGEST} bytes: choose a shorter one")
        try:
            with _alone_in(path.parent):
                _remove_stale(path)
                self.listening, self._identity = _listen(path, group, shared=shared or group is not None)
        except OSError as error:
            raise ConfigError(f"cannot listen on the socket {path}: {error.strerror or error}") from None

    def remove(self) -> None:
        """Remove the socket, unless another one has taken its place."""
        with suppress(OSError, ConfigError), _alone_in(self.path.parent):
            if _identity(self.path) == self._identity:
                os.unlink(self.path)


@contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """If two servers begin at once, one waits for the other. Raises `ConfigError` for a folder that others can write to."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        anyone = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        if anyone or status.st_uid not in (0, os.geteuid()):
            raise ConfigError(f"others could replace the socket in {folder}: use a folder that only you can write to")
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    """Raises `ConfigError`."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise ConfigError(f"another program has locked the folder {folder}: use one that only you can open") from None
            time.sleep(_LOCK_PAUSE)


def _remove_stale(path: Path) -> None:
    """Remove a socket of ours without a listener, left behind by a killed server. Raises `ConfigError` for anything else."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise ConfigError(f"{path} is there already, and is no socket: choose another path, or move it away")
    if status.st_uid != os.geteuid():
        raise ConfigError(f"{path} is the socket of another user: choose another path")
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        asking.settimeout(_ANSWER_SECONDS)
        asking.connect(str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    except TimeoutError:  # the server is there, but busy
        pass
    finally:
        asking.close()
    raise ConfigError(f"another server listens on {path} already: end it, or choose another path")


def _listen(path: Path, group: str | None, *, shared: bool) -> tuple[socket.socket, tuple[int, int]]:
    beside = path.with_name(f".{os.getpid()}.sock")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        before = os.umask(0o177)
        try:
            listening.bind(str(beside))
        finally:
            os.umask(before)
        if group is not None:
            os.chown(beside, -1, _group(group))
        os.chmod(beside, 0o660 if shared else 0o600)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        os.rename(beside, path)
        return listening, _identity(path)
    except BaseException:
        listening.close()
        with suppress(OSError):
            os.unlink(beside)
        raise


def _group(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except (KeyError, OverflowError):
        raise ConfigError(f"`understudy.serve.unix_group`: there is no group {name} here") from None


def _identity(path: Path) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


class SocketPeer(msgspec.Struct, frozen=True):
    """`contained`: it runs in a PID namespace below ours."""

    user: int
    contained: bool = False

    @property
    def user_name(self) -> str:
        try:
            return pwd.getpwuid(self.user).pw_name
        except (KeyError, OSError):
            return str(self.user)


def peer_of(connected: Any) -> SocketPeer | None:
    """None if the connection is not a Unix socket, or the system does not tell its user."""
    if connected is None or connected.family != socket.AF_UNIX:
        return None
    with suppress(OSError, struct.error):
        if sys.platform == "linux":
            process, user, _ = _LINUX.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _LINUX.size))
            return SocketPeer(user, contained=_is_contained(process))
        _, user = _BSD.unpack_from(connected.getsockopt(0, 1, _BSD_BYTES))  # SOL_LOCAL, LOCAL_PEERCRED
        return SocketPeer(user)
    return None


def _is_contained(process: int) -> bool:
    """Also true for a process that has ended and so is unknown, or whose ids are in no namespace of ours."""
    try:
        theirs, ours = _depth(str(process)), _depth("self")
    except OSError:
        return True
    return theirs > ours


def _depth(process: str) -> int:
    with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
        found = _NAMESPACES.search(file.read())
    return 1 if found is None else len(found[1].split())
