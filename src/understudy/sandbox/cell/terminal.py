"""A terminal for a command: made where the command sees it, in a full cell among nobody else's; the server gets the other end."""

import _socket
import fcntl
import os
import sys

_GET_NUMBER, _SET_SIZE, _TAKE = 0x80045430, 0x5414, 0x540E  # TIOCGPTN, TIOCSWINSZ, TIOCSCTTY
_ROWS, _COLUMNS = 24, 80


class Terminal:
    """The command's end. It stays open here, so that a command may close it and open it again."""

    def __init__(self, status: int, owner: "tuple[int, int] | None") -> None:
        """`status`: the socket to the server; `owner`: whose the terminal is to be, if not ours."""
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
        """As actions of `posix_spawn`: the first terminal that the head of a session opens becomes the session's own."""
        opened = (os.POSIX_SPAWN_OPEN, 0, self.path, os.O_RDWR, 0)
        return [opened, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]

    def take(self) -> None:
        """In a child that heads a session: this is the session's terminal."""
        fcntl.ioctl(self.descriptor, _TAKE, 0)


def _send(status: int, master: int) -> None:
    endpoint = _socket.socket(fileno=os.dup(status))
    try:
        rights = master.to_bytes(4, sys.byteorder)
        endpoint.sendmsg([b"note terminal\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    finally:
        endpoint.close()
