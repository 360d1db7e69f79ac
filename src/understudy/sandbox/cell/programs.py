"""Finds and executes a command's program; and makes its terminal.

The terminal is made where the command sees it, inside a full cell, apart from all others; the server gets the other end.
"""

import _socket
import fcntl
import os
import sys
from collections.abc import Callable

from .plan import Plan

_ENOENT, _ENOEXEC, _ENOTDIR = 2, 8, 20

Attempt = Callable[[bytes, "list[bytes]"], None]  # program and argv: execute or spawn it, raise OSError


def execute(plan: Plan, attempt: Attempt) -> int:
    """Try each place where the program may be. Returns the error number, 0 after success.

    Like execvp, passes a text file without #! to /bin/sh.
    """
    program = plan.argv[0]
    if b"/" in program:
        candidates = [program]
    else:
        path = plan.environment.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
        candidates = [os.path.join(folder or b".", program) for folder in path.split(b":")]
        candidates = [candidate for candidate in candidates if not _is_missing(candidate)]  # an attempt costs a new process
    result = _ENOENT
    for candidate in candidates:
        try:
            try:
                attempt(candidate, plan.argv)
            except OSError as error:
                if error.errno != _ENOEXEC:
                    raise
                attempt(b"/bin/sh", [b"sh", candidate, *plan.argv[1:]])
        except OSError as error:
            number = error.errno or _ENOENT
            if number not in (_ENOENT, _ENOTDIR):
                result = number
        else:
            return 0
    return result


def _is_missing(path: bytes) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # whatever it is, executing it gives the right error
    return False


_GET_NUMBER, _SET_SIZE, _TAKE = 0x80045430, 0x5414, 0x540E  # TIOCGPTN, TIOCSWINSZ, TIOCSCTTY
_ROWS, _COLUMNS = 24, 80


class Terminal:
    """The command's end of a terminal. It stays open here, so that a command may close it and open it again."""

    def __init__(self, status: int, owner: "tuple[int, int] | None") -> None:
        """`status`: the socket to the server; `owner`: who gets the terminal, if not our user."""
        master, self.descriptor = os.openpty()
        try:
            number = int.from_bytes(fcntl.ioctl(master, _GET_NUMBER, bytes(4)), sys.byteorder)
            self.path = b"/dev/pts/%d" % number
            size = b"".join(part.to_bytes(2, sys.byteorder) for part in (_ROWS, _COLUMNS, 0, 0))
            fcntl.ioctl(self.descriptor, _SET_SIZE, size)
            if owner is not None:
                os.fchown(self.descriptor, *owner)
            _send(status, master)
        finally:
            os.close(master)

    def open_in_child(self) -> "list[tuple[int, int, bytes, int, int] | tuple[int, int, int]]":
        """Actions for `posix_spawn`: the first terminal that a session's leader opens becomes the session's terminal."""
        opened = (os.POSIX_SPAWN_OPEN, 0, self.path, os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def take(self) -> None:
        """In a child that leads a session: make this the session's terminal."""
        fcntl.ioctl(self.descriptor, _TAKE, 0)


def _send(status: int, master: int) -> None:
    endpoint = _socket.socket(fileno=os.dup(status))
    try:
        rights = master.to_bytes(4, sys.byteorder)
        endpoint.sendmsg([b"note terminal\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    finally:
        endpoint.close()
