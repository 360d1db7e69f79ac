"""Messages that wait for the end of a turn, kept on disk: they are not in the log yet, and must not be lost with the chat."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

MOST_BYTES = 64 << 20


class Queued(msgspec.Struct, frozen=True):
    text: str
    images: tuple[str, ...] = ()  # as data URLs


class QueueFile:
    """Of one conversation and this process. A disk that cannot be written is no reason not to queue anything."""

    def __init__(self, folder: Path | None, conversation_id: str) -> None:
        """`folder`: None where nothing is to be kept."""
        self._folder = folder
        self._id = conversation_id
        self._file = None if folder is None else folder / f"{conversation_id}.{os.getpid()}.json"

    def keep(self, queued: Sequence[Queued]) -> None:
        if self._file is None or self._folder is None:
            return
        with suppress(OSError):
            if not queued:
                self._file.unlink(missing_ok=True)
                return
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(queued))
            os.replace(fresh, self._file)

    def take_over(self) -> list[Queued]:
        """What chats have left that are not there any more."""
        found: list[Queued] = []
        if self._folder is None:
            return found
        with suppress(OSError):
            for file in sorted(self._folder.glob(f"{self._id}.*.json")):
                number = file.name.split(".")[-2]
                if number.isdecimal() and not _lives(int(number)):
                    found += _read(file)
                    file.unlink(missing_ok=True)
        return found


def _read(file: Path) -> list[Queued]:
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            return msgspec.json.decode(opened.read(MOST_BYTES), type=list[Queued])
    except (OSError, msgspec.MsgspecError):
        return []


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return process != os.getpid()
