"""Where this home's server listens: a file that exists while it runs, for `understudy open` and for links."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import msgspec

_NAME = "server.json"
SECONDS = 2.0  # for connecting


class RunningServer(msgspec.Struct, frozen=True):
    page: str  # its address for browsers, without a slash at the end; empty if it has only a socket
    host: str  # where it listens
    port: int
    process: int
    no_auth: bool = False
    unix: str = ""  # its socket


def note_running(state_dir: Path, server: RunningServer) -> None:
    """If this fails, `understudy open` does not find the server; nothing else needs it."""
    beside = state_dir / f".{_NAME}.{os.getpid()}"
    with suppress(OSError):
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(server))
        os.replace(beside, state_dir / _NAME)


def forget_running(state_dir: Path) -> None:
    """Unless another server was started since."""
    found = _read(state_dir)
    if found is not None and found.process == os.getpid():
        with suppress(OSError):
            os.unlink(state_dir / _NAME)


def find_running(state_dir: Path) -> RunningServer | None:
    """The server that was started last, if it still listens."""
    found = _read(state_dir)
    if found is None:
        return None
    if found.unix and not found.port:
        return found if _listens(found.unix) else None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(found.host, found.host)
    try:
        socket.create_connection((host, found.port), SECONDS).close()
    except OSError:
        return None
    return found


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(SECONDS)
        try:
            asking.connect(path)
        except OSError:
            return False
    return True


def link_to(state_dir: Path, conversation_id: str) -> str | None:
    """The page's address of a conversation, for people who are logged in; None if no server runs."""
    found = _read(state_dir)
    if found is None or not found.page:
        return None
    try:
        os.kill(found.process, 0)
    except ProcessLookupError:
        return None
    except OSError:  # another user's socket, but the server runs
        pass
    return f"{found.page}/#/c/{conversation_id}"


def _read(state_dir: Path) -> RunningServer | None:
    try:
        return msgspec.json.decode((state_dir / _NAME).read_bytes(), type=RunningServer)
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
